// The ranges of numbers (settings.hpp), arrays that are too long (memory.hpp), and exceptions on threads (threads.hpp).
#include <atomic>
#include <limits>

#include "check.hpp"
#include "engine/memory.hpp"
#include "engine/settings.hpp"
#include "engine/threads.hpp"

using namespace manyheads;

namespace {

template <class Error, class Body> bool throws(Body &&body) {
    try {
        body();
    } catch (const Error &) {
        return true;
    }
    return false;
}

Settings valid() {
    Settings s;
    s.items = 8, s.d_model = 4, s.heads = s.key_heads = 2, s.key_width = 3, s.context = 4;
    s.steps = s.validate_every = s.validation_contexts = s.test_contexts = 10;
    s.patience = 5;
    return s;
}

template <class Field> bool refused(Field Settings::*field, std::int64_t value) {
    Settings s = valid();
    s.*field = static_cast<Field>(value);
    return throws<std::invalid_argument>([&] { s.check(); });
}

}  // namespace

TEST(settings_out_of_range_are_refused) {
    CHECK(!throws<std::invalid_argument>([] { valid().check(); }));
    CHECK(throws<std::invalid_argument>([] { Settings().check(); }));
    for (const auto field : {&Settings::items, &Settings::d_model, &Settings::heads, &Settings::key_heads, &Settings::key_width,
                             &Settings::context, &Settings::patience})
        for (const std::int64_t value : {0, -1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()})
            CHECK(refused(field, value));
    for (const auto field : {&Settings::steps, &Settings::validate_every, &Settings::validation_contexts, &Settings::test_contexts})
        for (const std::int64_t value : {std::int64_t(0), std::int64_t(-1), std::numeric_limits<std::int64_t>::max()})
            CHECK(refused(field, value));
    CHECK(refused(&Settings::context, 1) && refused(&Settings::context, 9) && !refused(&Settings::context, 8));
    CHECK(refused(&Settings::key_width, MOST_KEY_BUDGET / 2 + 1) && !refused(&Settings::key_width, MOST_KEY_BUDGET / 2));
    CHECK(refused(&Settings::heads, 3) && !refused(&Settings::heads, 4));  // two key heads
    Settings s = valid();
    s.target_rate = std::numeric_limits<double>::quiet_NaN();
    CHECK(throws<std::invalid_argument>([&] { s.check(); }));
    s = valid(), s.values = true;
    CHECK(throws<std::invalid_argument>([&] { s.check(); }));
}

TEST(an_array_of_more_bytes_than_can_be_counted_is_refused) {
    CHECK(throws<std::bad_alloc>([] { Buffer<double>(std::numeric_limits<std::size_t>::max() / 8 + 2); }));
}

TEST(an_exception_on_a_thread_reaches_the_caller_after_all_have_ended) {
    for (const int thrower : {0, 1, 3}) {
        std::atomic<int> ended = 0;
        CHECK(throws<std::bad_alloc>([&] {
            on_threads(4, [&](int n) {
                if (n == thrower) throw std::bad_alloc();
                ++ended;
            });
        }));
        CHECK(ended == 3);
    }
}

TEST(threads_that_started_are_joined_where_a_further_one_does_not_start) {
    std::atomic<int> ended = 0;
    const auto start = [](Threads &threads, auto &&work) {
        if (threads.size() == 2) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        start_thread(threads, work);
    };
    CHECK(throws<std::runtime_error>([&] { on_threads(5, [&](int) { ++ended; }, start); }));
    CHECK(ended == 2);
}
