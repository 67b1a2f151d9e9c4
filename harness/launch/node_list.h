#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dettax {

// Host names of a node list as Slurm writes it: commas outside brackets separate entries, brackets
// hold numbers and ranges, "login1,gpu[007-009,12],r[1-2]n[01-02]". A range keeps the width of its
// first number. Error{config} that quotes the text for anything else, the empty list included.
std::vector<std::string> expand_node_list(std::string_view text);

// Tasks of each node, from Slurm's "2(x3),1" = 2 2 2 1. Counts may be uneven.
std::vector<int> expand_task_counts(std::string_view text);

// Tasks of one node. Error{config} for a node that the list does not reach.
int tasks_on_node(const std::vector<int>& counts, int node);

// Where a rank sits when ranks fill node after node.
struct Seat {
  int node = 0;
  int local_rank = 0;
  int local_size = 1;
  friend bool operator==(const Seat&, const Seat&) = default;
};
Seat seat_of_rank(const std::vector<int>& counts, int rank);

}  // namespace dettax
