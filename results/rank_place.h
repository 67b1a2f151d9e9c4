#pragma once

#include <string>

namespace dettax {

// Where a rank ran.
struct RankPlace {
  int rank = 0;
  std::string host;
  std::string cores;   // it could use, "0-3,8"
  bool bound = false;  // each compute thread to one of them
};

}  // namespace dettax
