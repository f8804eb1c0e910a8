// A session's output for a person's terminal that is not attached to it: text, and nothing that would act on the
// terminal. Passive; knows no session.
#pragma once

#include <string>
#include <string_view>

namespace rex::cli {

/// Colours are left out; every other control character but newline and tab, and what is no UTF-8, is shown as \xHH.
class VisibleText {
 public:
  /// What can be shown now; a sequence that is not complete yet comes with the next bytes.
  std::string feed(std::string_view bytes);
  /// What was still held back.
  std::string finish();

 private:
  std::string held_;  // at most max_held bytes
};

}  // namespace rex::cli
