#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/rank_links.h"

namespace dettax {

// "rank 2 on host h3".
std::string name_of(const RankLink& link);

// "in step 4, op backward/layer1/attention".
std::string position_words(const Heartbeat& at);

// Whom to blame once connections have ended: who left last words, else who was first to go, and
// everyone of its host if they went at once. One sentence.
std::string death_words(const std::vector<RankLink>& links);

// Whom to blame when a request takes too long: ranks of which nothing was heard for `silent_seconds`
// while others spoke, which are lost with their host or network, else the rank that got least far.
std::string delay_words(const std::vector<RankLink>& links,
                        std::chrono::steady_clock::time_point now, double silent_seconds,
                        double no_progress_seconds);

// The earliest finding of replies to FindNonFinite: a collective spreads it to the others.
std::string earliest_finding(const std::vector<Reply>& replies);

}  // namespace dettax
