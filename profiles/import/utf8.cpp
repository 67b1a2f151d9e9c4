#include "profiles/import/utf8.h"

#include "harness/base/text.h"

namespace dettax {

std::string repaired_utf8(std::string_view text) {
  std::string whole;
  for (auto bad = first_bad_utf8(text); bad; bad = first_bad_utf8(text)) {
    whole.append(text.substr(0, *bad)).append("\xEF\xBF\xBD");
    text.remove_prefix(*bad + 1);
  }
  return whole.append(text);
}

}  // namespace dettax
