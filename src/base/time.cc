// The calendar is std::chrono's (proleptic Gregorian) as far as it goes and 400-year periods beyond: no libc, whose
// functions know locales and time zones, and whose time_t may come from any file system.
#include "base/time.h"

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace rex {
namespace {

constexpr std::int64_t kDaySeconds = 86400;
constexpr std::int64_t kPeriodYears = 400;  // after which the calendar repeats
constexpr std::int64_t kPeriodDays = 146097;
constexpr std::int64_t kMaxYear = 290'000'000'000;  // 64 bits of seconds reach a little further

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// A reader of fixed-width fields; after the first mismatch everything fails.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}

  int digits(std::size_t count) {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = value * 10 + digit();
    }
    return value;
  }

  std::int64_t signed_year() {
    const bool sign = peek('+') || peek('-');
    if (!sign) {
      return digits(4);
    }
    const bool negative = peek('-');
    rest_.remove_prefix(1);
    std::int64_t year = digits(4);
    while (is_digit() && year <= kMaxYear) {
      year = year * 10 + digit();
    }
    good_ = good_ && year <= kMaxYear;
    return negative ? -year : year;
  }

  /// Up to nine digits after a point, as nanoseconds.
  long fraction() {
    long value = 0;
    long weight = 100'000'000;
    good_ = good_ && is_digit();
    while (good_ && is_digit()) {
      good_ = weight > 0;
      value += weight * digit();
      weight /= 10;
    }
    return value;
  }

  bool take_any_of(std::string_view characters) {
    if (rest_.empty() || characters.find(rest_.front()) == characters.npos) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }
  void expect(std::string_view characters) { good_ = take_any_of(characters) && good_; }
  void require(bool condition) { good_ = condition && good_; }
  [[nodiscard]] bool peek(char c) const { return rest_.starts_with(c); }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool good_to_the_end() const { return good_ && rest_.empty(); }

 private:
  [[nodiscard]] bool is_digit() const { return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; }
  int digit() {
    if (!is_digit()) {
      good_ = false;
      return 0;
    }
    const int value = rest_.front() - '0';
    rest_.remove_prefix(1);
    return value;
  }

  std::string_view rest_;
  bool good_ = true;
};

/// Days since 1970-01-01; nullopt for a day that does not exist.
std::optional<std::int64_t> days_of(std::int64_t year, int month, int day) {
  using namespace std::chrono;
  const std::int64_t period = floor_div(year, kPeriodYears);
  const year_month_day date(std::chrono::year(static_cast<int>(year - period * kPeriodYears)),
                            std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok()) {
    return std::nullopt;
  }
  return sys_days(date).time_since_epoch().count() + period * kPeriodDays;
}

/// Seconds east of UTC from "Z" or "+hh:mm".
std::int64_t zone_offset(Fields& fields) {
  if (fields.take_any_of("Zz")) {
    return 0;
  }
  const bool west = fields.peek('-');
  fields.expect("+-");
  const int hours = fields.digits(2);
  fields.expect(":");
  const int minutes = fields.digits(2);
  fields.require(hours <= 23 && minutes <= 59);
  const std::int64_t seconds = hours * 3600 + minutes * 60;
  return west ? -seconds : seconds;
}

}  // namespace

std::string format_time(timespec time) {
  using namespace std::chrono;
  const std::int64_t seconds = time.tv_sec;
  const std::int64_t days = floor_div(seconds, kDaySeconds);
  const std::int64_t period = floor_div(days, kPeriodDays);
  const year_month_day date{sys_days(std::chrono::days(days - period * kPeriodDays))};
  const std::int64_t year = static_cast<int>(date.year()) + period * kPeriodYears;
  const auto second = static_cast<int>(seconds - days * kDaySeconds);

  char text[80];
  const char* year_format = year < 0 || year > 9999 ? "%+05lld" : "%04lld";
  int length = std::snprintf(text, sizeof text, year_format, static_cast<long long>(year));
  std::string out(text, static_cast<std::size_t>(length));
  length = std::snprintf(text, sizeof text, "-%02u-%02uT%02d:%02d:%02d", static_cast<unsigned>(date.month()),
                         static_cast<unsigned>(date.day()), second / 3600, second / 60 % 60, second % 60);
  out.append(text, static_cast<std::size_t>(length));
  if (time.tv_nsec != 0) {
    length = std::snprintf(text, sizeof text, ".%09ld", time.tv_nsec);
    out.append(text, static_cast<std::size_t>(length));
    out.erase(out.find_last_not_of('0') + 1);
  }
  return out + "Z";
}

std::optional<timespec> parse_time(std::string_view text) {
  Fields fields(text);
  const std::int64_t year = fields.signed_year();
  fields.expect("-");
  const int month = fields.digits(2);
  fields.expect("-");
  const int day = fields.digits(2);
  fields.expect("Tt ");
  const int hour = fields.digits(2);
  fields.expect(":");
  const int minute = fields.digits(2);
  fields.expect(":");
  const int second = fields.digits(2);
  const long nanoseconds = fields.take_any_of(".") ? fields.fraction() : 0;
  const std::int64_t east = zone_offset(fields);
  fields.require(hour <= 23 && minute <= 59 && second <= 60);
  if (!fields.good_to_the_end()) {
    return std::nullopt;
  }
  const auto days = days_of(year, month, day);
  if (!days) {
    return std::nullopt;
  }
  return timespec{*days * kDaySeconds + hour * 3600 + minute * 60 + second - east, nanoseconds};
}

timespec now_utc() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

}  // namespace rex
