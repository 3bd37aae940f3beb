// A zeroed array that starts on a cache line.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "refusal.hpp"

namespace manyheads {

template <class T> class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t count) : size_(count), data_(static_cast<T *>(::operator new[](bytes(count), LINE))) {
        std::memset(static_cast<void *>(data_.get()), 0, bytes(count));
    }

    T *data() { return data_.get(); }
    const T *data() const { return data_.get(); }
    T &operator[](std::size_t i) { return data_[i]; }
    const T &operator[](std::size_t i) const { return data_[i]; }
    std::size_t size() const { return size_; }

private:
    static constexpr std::align_val_t LINE{64};
    static std::size_t bytes(std::size_t count) {
        if (count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T)) refuse(std::bad_array_new_length());
        return count * sizeof(T);
    }
    struct Free {
        void operator()(T *p) const { ::operator delete[](static_cast<void *>(p), LINE); }
    };
    std::size_t size_ = 0;
    std::unique_ptr<T[], Free> data_;
};

}  // namespace manyheads
