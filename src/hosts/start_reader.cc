#include "hosts/start_reader.h"

#include <algorithm>
#include <utility>

namespace rex::hosts {
namespace {

constexpr std::size_t max_last_noise = 256;

}  // namespace

void StartReader::feed(std::string_view bytes) { held_ += bytes; }

std::optional<StartLine> StartReader::next() {
  const std::size_t at = held_.find(sentinel_);
  if (at == std::string::npos) {
    // All but what may be the beginning of a sentinel.
    take_noise(held_.size() - std::min(held_.size(), sentinel_.size() - 1));
    return std::nullopt;
  }
  take_noise(at);
  const std::size_t end = held_.find('\n');
  if (end == std::string::npos) {
    if (held_.size() > max_start_line) {
      take_noise(sentinel_.size());
    }
    return std::nullopt;
  }
  std::string_view text(held_.data() + sentinel_.size(), end - sentinel_.size());
  StartLine line;
  if (text.ends_with('\r')) {
    line.has_carriage_return = true;
    text.remove_suffix(1);
  }
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t space = std::min(text.find(' '), text.size());
  line.word = text.substr(0, space);
  line.text = text.substr(std::min(space + 1, text.size()));
  held_.erase(0, end + 1);
  return line;
}

std::string StartReader::take_rest() { return std::exchange(held_, {}); }

void StartReader::finish() { take_noise(held_.size()); }

void StartReader::take_noise(std::size_t size) {
  const std::string_view bytes = std::string_view(held_).substr(0, size);
  noise_ += bytes.substr(0, max_noise - noise_.size());
  last_noise_ += bytes.substr(bytes.size() - std::min(bytes.size(), max_last_noise));
  last_noise_.erase(0, last_noise_.size() - std::min(last_noise_.size(), max_last_noise));
  noise_bytes_ += size;
  held_.erase(0, size);
}

}  // namespace rex::hosts
