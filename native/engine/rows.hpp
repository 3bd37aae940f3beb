// Tables with one row for each item, and the rows of one context gathered from them.
#pragma once

#include <algorithm>
#include <vector>

#include "contexts.hpp"
#include "memory.hpp"
#include "simd.hpp"

namespace manyheads {

// Rows of equal width (embedding, messages, projections), each padded with zeros to whole vectors.
template <class T> class Rows {
public:
    Rows() = default;
    Rows(std::size_t count, int width) : width_(width), stride_(round_up(width, WIDTH<T>)), data_(count * stride_), zero_(stride_) {}
    template <class U> Rows(const U *plain, std::size_t count, int width) : Rows(count, width) {
        for (std::size_t i = 0; i < count; ++i) std::copy_n(plain + i * width, width, row(i));
    }

    T *row(std::size_t i) { return data_.data() + i * stride_; }
    const T *row(std::size_t i) const { return data_.data() + i * stride_; }
    const T *zero() const { return zero_.data(); }
    int width() const { return width_; }
    int stride() const { return stride_; }

private:
    int width_ = 0, stride_ = 0;
    Buffer<T> data_, zero_;
};

// The rows of one context, and the same transposed: across(d) is coordinate d of every position, the padding zero.
template <class T> class Gathered {
public:
    Gathered(const Rows<T> &rows, int length)
        : rows_(&rows), length_(length), stride_(round_up(length, WIDTH<T>)), row_(stride_, rows.zero()),
          across_(std::size_t(rows.stride()) * stride_) {}

    void gather(const Item *items, int count) {
        constexpr int W = WIDTH<T>;
        for (int p = 0; p < length_; ++p) row_[p] = p < count ? rows_->row(items[p]) : rows_->zero();
        for (int p = 0; p < stride_; p += W)
            for (int d = 0; d < rows_->stride(); d += W) {
                Vec<T> block[W];
                unroll<W>([&](auto i) MANYHEADS_INLINE { block[i] = load(row_[p + i] + d); });
                transpose<T>(block);
                T *to = across_.data() + std::size_t(d) * stride_ + p;
                unroll<W>([&](auto i) MANYHEADS_INLINE { store<T>(to + std::size_t(i) * stride_, block[i]); });
            }
    }
    void gather(const Item *items) { gather(items, length_); }

    const T *row(int position) const { return row_[position]; }
    const T *across(int coordinate) const { return across_.data() + std::size_t(coordinate) * stride_; }

private:
    const Rows<T> *rows_;
    int length_, stride_;
    std::vector<const T *> row_;
    Buffer<T> across_;
};

// to[j, i] = from[i, j] for whole vectors of rows and columns.
template <class T> MANYHEADS_INLINE inline void transpose_into(const T *from, std::ptrdiff_t from_stride, int rows, int columns, T *to,
                                                               std::ptrdiff_t to_stride) {
    constexpr int W = WIDTH<T>;
    for (int i = 0; i < rows; i += W)
        for (int j = 0; j < columns; j += W) {
            Vec<T> block[W];
            unroll<W>([&](auto n) MANYHEADS_INLINE { block[n] = load(from + (i + n) * from_stride + j); });
            transpose<T>(block);
            unroll<W>([&](auto n) MANYHEADS_INLINE { store<T>(to + (j + n) * to_stride + i, block[n]); });
        }
}

}  // namespace manyheads
