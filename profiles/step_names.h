#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dettax {

// The number of the step that a range of this name marks; nothing if it marks none. `step_name` as in ImportOptions.
std::optional<int64_t> step_index_of(std::string_view range_name, std::string_view step_name);

}  // namespace dettax
