// What base/time.h promises: every moment a file system can hold comes back exactly.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <string>

#include "base/time.h"

TEST_CASE("moments are written as RFC 3339 and read back exactly", "[K06]") {
  struct {
    timespec time;
    const char* text;
  } const rows[] = {
      {{0, 0}, "1970-01-01T00:00:00Z"},
      {{0, 1}, "1970-01-01T00:00:00.000000001Z"},
      {{-1, 999999999}, "1969-12-31T23:59:59.999999999Z"},
      {{-1, 500000000}, "1969-12-31T23:59:59.5Z"},
      {{-2147483648LL, 0}, "1901-12-13T20:45:52Z"},
      {{2147483647, 0}, "2038-01-19T03:14:07Z"},
      {{2147483648LL, 120000000}, "2038-01-19T03:14:08.12Z"},
      {{951782400, 0}, "2000-02-29T00:00:00Z"},
      {{253402300799LL, 999999999}, "9999-12-31T23:59:59.999999999Z"},
      {{253402300800LL, 0}, "+10000-01-01T00:00:00Z"},
      {{-62167219200LL, 0}, "0000-01-01T00:00:00Z"},
      {{-62167219201LL, 0}, "-0001-12-31T23:59:59Z"},
      {{67768036191676799LL, 0}, "+2147485547-12-31T23:59:59Z"},
  };
  for (const auto& row : rows) {
    CHECK(rex::format_time(row.time) == row.text);
    const auto back = rex::parse_time(row.text);
    REQUIRE(back.has_value());
    CHECK(back->tv_sec == row.time.tv_sec);
    CHECK(back->tv_nsec == row.time.tv_nsec);
  }
}

TEST_CASE("any second of 64 bits survives being written", "[K06]") {
  std::mt19937_64 random(4);
  std::size_t wrong = 0;
  for (int round = 0; round < 100000; ++round) {
    const timespec time{static_cast<time_t>(random()) >> (random() % 60), static_cast<long>(random() % 1000000000)};
    const auto back = rex::parse_time(rex::format_time(time));
    const bool in_reach = time.tv_sec / 31556952 > -290'000'000'000 && time.tv_sec / 31556952 < 290'000'000'000;
    wrong += in_reach && !(back && back->tv_sec == time.tv_sec && back->tv_nsec == time.tv_nsec);
  }
  CHECK(wrong == 0);
}

TEST_CASE("other spellings of RFC 3339 name the same moment", "[K05]") {
  for (const char* text :
       {"2024-02-29T12:00:00Z", "2024-02-29t12:00:00z", "2024-02-29 12:00:00Z", "2024-02-29T12:00:00.000Z",
        "2024-02-29T14:00:00+02:00", "2024-02-28T23:30:00-12:30", "2024-02-29T11:59:60Z"}) {
    CAPTURE(text);
    const auto time = rex::parse_time(text);
    REQUIRE(time.has_value());
    CHECK(time->tv_sec == 1709208000);
    CHECK(time->tv_nsec == 0);
  }
}

TEST_CASE("what is no moment is refused") {
  for (const char* text : {"",
                           "2024",
                           "2023-02-29T00:00:00Z",
                           "2024-13-01T00:00:00Z",
                           "2024-00-01T00:00:00Z",
                           "2024-01-32T00:00:00Z",
                           "2024-01-01T24:00:00Z",
                           "2024-01-01T00:60:00Z",
                           "2024-01-01T00:00:61Z",
                           "2024-01-01T00:00:00",
                           "2024-01-01",
                           "2024-01-01T00:00:00.Z",
                           "2024-01-01T00:00:00.1234567890Z",
                           "2024-01-01T00:00:00Z ",
                           " 2024-01-01T00:00:00Z",
                           "2024-1-1T0:0:0Z",
                           "2024-01-01T00:00:00+2:00",
                           "2024-01-01T00:00:00+0200",
                           "2024-01-01T00:00:00+24:00",
                           "+999999999999999999999-01-01T00:00:00Z",
                           "99999-01-01T00:00:00Z",
                           "1e9",
                           "2024-01-01T00:00:00é"}) {
    CAPTURE(text);
    CHECK_FALSE(rex::parse_time(text).has_value());
  }
}
