// Who may type into a session. Knows clients as numbers with a name for the others to read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rex::shell {

/// While nobody holds it, everybody may type.
class WriterLease {
 public:
  /// Returns the number by which it is left. The holder may take it anew. Throws NotWriter `{writer}` when another
  /// client has it and this is no takeover.
  std::uint64_t take(std::uint64_t client, std::string name, bool takeover);
  /// False when it has been taken over meanwhile.
  bool leave(std::uint64_t lease);
  /// Throws NotWriter when another client holds it.
  void require(std::uint64_t client) const;
  [[nodiscard]] std::optional<std::string> holder() const;
  [[nodiscard]] bool is_held(std::uint64_t lease) const { return lease != 0 && lease == lease_; }

 private:
  std::uint64_t lease_ = 0;  // 0: nobody holds it
  std::uint64_t last_ = 0;
  std::uint64_t client_ = 0;
  std::string name_;
};

}  // namespace rex::shell
