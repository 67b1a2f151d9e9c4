#pragma once

#include <algorithm>
#include <cstdint>

namespace dettax {

// Which tokens of each sequence the rows of a sample are: the first half of the rows those from `first` on, the others those from
// `second` on. By default rows 0, 1, ... are tokens 0, 1, ...
struct TokenPlaces {
  static constexpr int64_t kNext = -1;  // behind the first half
  int64_t first = 0, second = kNext;
  constexpr int64_t position(int64_t row, int64_t rows) const {
    return second == kNext || row < rows / 2 ? first + row : second + row - rows / 2;
  }
  // Rows from this one on whose tokens are neighbours.
  constexpr int64_t run(int64_t row, int64_t rows) const {
    return (second == kNext || row >= rows / 2 ? rows : rows / 2) - row;
  }
  // One more than the largest position.
  constexpr int64_t end(int64_t rows) const {
    return rows == 0 ? 0 : 1 + std::max(position(rows / 2, rows), position(rows - 1, rows));
  }
};

}  // namespace dettax
