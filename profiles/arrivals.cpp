#include "profiles/arrivals.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "harness/base/format.h"
#include "profiles/classify.h"

namespace dettax {
namespace {

// A rank's spans of one meeting: several where it was begun in one place and waited for in another.
struct Member {
  size_t rank;
  std::vector<size_t> spans;
  int64_t start_ns, end_ns;  // of all of them

  void add(size_t index, const Span& span) {
    spans.push_back(index);
    start_ns = std::min(start_ns, span.start_ns);
    end_ns = std::max(end_ns, span.end_ns);
  }
};

struct Meeting {
  std::string group;
  int64_t group_size = 0;
  bool one_way = false;  // who only gives may be through before the others come
  std::vector<Member> members;

  Member& of_rank(size_t rank) {
    if (members.empty() || members.back().rank != rank)
      members.push_back({rank, {}, INT64_MAX, INT64_MIN});
    return members.back();
  }
  int64_t last_start_ns() const {
    return std::ranges::max(members, {}, &Member::start_ns).start_ns;
  }
  int64_t first_end_ns() const { return std::ranges::min(members, {}, &Member::end_ns).end_ns; }
  // For which this rank can have waited: of those that came before it left, the last.
  int64_t last_start_before_ns(int64_t end_ns) const {
    int64_t last = INT64_MIN;
    for (const Member& member : members)
      if (member.start_ns <= end_ns) last = std::max(last, member.start_ns);
    return last;
  }
};

bool goes_one_way(std::string_view name) {
  return name == kMessage || name == "broadcast" || name == "reduce";
}

int64_t step_at(const Trace& trace, int64_t time_ns) {
  const auto behind =
      std::upper_bound(trace.steps.begin(), trace.steps.end(), time_ns,
                       [](int64_t time, const StepMark& mark) { return time < mark.start_ns; });
  return behind == trace.steps.begin() ? -1 : std::prev(behind)->index;
}

// Collectives of all ranks by what makes them the same one.
class Meetings {
 public:
  void add(size_t rank, const Trace& trace) {
    std::map<std::string, int64_t> place;  // of collectives without a sequence number
    for (size_t i = 0; i < trace.spans.size(); ++i) {
      const Span& span = trace.spans[i];
      if (span.category != Category::communication) continue;
      const Collective& collective = trace.collectives[span.collective];
      const std::string& group = trace.names[collective.group];
      if (span.collective == 0 || group.empty()) {
        ++without_group;
        continue;
      }
      std::string key = group + '\n' + trace.names[collective.name] + '\n';
      if (collective.sequence >= 0) {
        key += std::to_string(collective.sequence);
      } else {
        key += "step " + std::to_string(step_at(trace, span.start_ns)) + ", ";
        key += std::to_string(place[key]++);
      }
      Meeting& meeting = by_key_[key];
      meeting.group = group;
      meeting.group_size = collective.group_size;
      meeting.one_way = goes_one_way(trace.names[collective.name]);
      meeting.of_rank(rank).add(i, span);
      ranks_of_group_[group].insert(rank);
    }
  }

  const std::unordered_map<std::string, Meeting>& all() const { return by_key_; }
  bool complete(const Meeting& meeting) const {
    const size_t size = meeting.group_size > 0
                            ? static_cast<size_t>(meeting.group_size)
                            : std::max<size_t>(2, ranks_of_group_.at(meeting.group).size());
    return meeting.members.size() == size;
  }

  int64_t without_group = 0;

 private:
  std::unordered_map<std::string, Meeting> by_key_;
  std::map<std::string, std::set<size_t>> ranks_of_group_;
};

bool on_one_host(const std::vector<Trace>& traces, const Meeting& meeting) {
  return std::all_of(meeting.members.begin(), meeting.members.end(), [&](const Member& member) {
    return traces[member.rank].host == traces[meeting.members.front().rank].host;
  });
}

void note_count(std::vector<std::string>& notes, int64_t count, const std::string& why) {
  if (count > 0)
    notes.push_back(format_things(count, "collective") +
                    " not split into waiting and transfer: " + why);
}

}  // namespace

std::vector<LastArrivals> last_arrivals(const std::vector<Trace>& traces,
                                        std::vector<std::string>& notes) {
  std::vector<LastArrivals> last;
  Meetings meetings;
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    last.emplace_back(traces[rank].spans.size(), kNoOtherRank);
    meetings.add(rank, traces[rank]);
  }
  int64_t partial = 0, apart = 0, impossible = 0;
  for (const auto& [key, meeting] : meetings.all()) {
    if (!meetings.complete(meeting)) {
      ++partial;
    } else if (!on_one_host(traces, meeting)) {
      ++apart;
    } else if (meeting.last_start_ns() > meeting.first_end_ns() && !meeting.one_way) {
      ++impossible;
    } else {
      for (const Member& member : meeting.members) {
        const int64_t arrival = meeting.last_start_before_ns(member.end_ns);
        for (const size_t span : member.spans) last[member.rank][span] = arrival;
      }
    }
  }
  note_count(notes, meetings.without_group, "the trace does not tell their group");
  note_count(notes, partial, "not every member's trace is there");
  note_count(notes, apart, "their ranks are on different hosts, whose clocks differ");
  note_count(notes, impossible, "one rank left before another came, so their clocks differ");
  return last;
}

}  // namespace dettax
