#include "profiles/import/kineto.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "profiles/import/byte_source.h"
#include "profiles/import/json_cursor.h"
#include "profiles/import/kineto_event.h"
#include "profiles/import/trace_builder.h"
#include "profiles/import/window.h"
#include "profiles/keys.h"

namespace dettax {
namespace {

class Reader {
 public:
  Reader(ByteSource& source, const std::string& name, const ImportOptions& options)
      : source_(source),
        name_(name),
        options_(options),
        window_(source, name),
        builder_(name, options) {}

  Trace read() {
    window_.extend();
    const bool whole = peek() == '[' ? read_events() : read_members();
    if (!whole && !options_.salvage) throw fault_;
    if (!whole && number_ == 0) builder_.count_damaged(1);
    return builder_.take();
  }

 private:
  JsonCursor cursor() const { return {window_.begin(), window_.end()}; }

  // Runs `part` on a cursor at the begin of the window, again with more text as long as it runs out. True: it succeeded, and the window
  // begins behind it; what it found in the text is still there until the next call. False: damage, noted in fault_.
  template <typename Part>
  bool parse(const Part& part, const std::string& what) {
    for (;;) {
      JsonCursor at = cursor();
      if (part(at)) {
        window_.discard(at.at());
        return true;
      }
      const bool ended = at.fault() == JsonCursor::Fault::ran_out;
      const int64_t offset = window_.offset() + (at.at() - window_.begin());
      if (ended && window_.extend()) continue;  // which moves the text, and with it the place
      note(offset, what, ended);
      return false;
    }
  }

  void note(int64_t offset, const std::string& what, bool ended) {
    if (noted_) return;
    noted_ = true;
    std::string text = name_ + ": is damaged at byte " + std::to_string(offset) + ", " + what;
    text += !ended              ? ": not valid JSON"
            : source_.cut_off() ? ": its gzip data end early"
                                : ": the file ends early";
    fault_ = Error(ErrorKind::config, text + "; --salvage takes what can be read of it");
  }

  char peek() {
    char found = 0;
    parse([&](JsonCursor& at) { return (found = at.peek()) != 0 || at.expect('{'); },
          "before any event");
    return found;
  }

  bool read_members() {
    const std::string place = "outside of the events";
    if (!parse([](JsonCursor& at) { return at.expect('{'); }, "at its begin")) return false;
    bool more = true;
    const auto is_empty = [&](JsonCursor& at) {
      const char c = at.peek();
      if (c == 0) return at.expect('}');
      more = c != '}';
      return more || at.expect('}');
    };
    if (!parse(is_empty, place)) return false;
    while (more) {
      bool events = false;
      std::string key;
      JsonToken value;
      const auto member = [&](JsonCursor& at) {
        JsonToken name;
        if (!at.key(name)) return false;
        key = unescaped(name);
        events = key == "traceEvents" && at.peek() == '[';
        return events || at.value(value);
      };
      if (!parse(member, place)) return false;
      if (events ? !read_events() : false) return false;
      if (!events) builder_.add_member(key, value);
      if (!parse([&](JsonCursor& at) { return at.next('}', more); }, place)) return false;
    }
    return true;
  }

  bool read_events() {
    bool more = true;
    const auto open = [&](JsonCursor& at) {
      if (!at.expect('[')) return false;
      const char c = at.peek();
      if (c == 0) return at.expect(']');
      more = c != ']';
      return more || at.expect(']');
    };
    if (!parse(open, "before any event")) return false;
    while (more) {
      ++number_;
      if (read_event(more)) continue;
      if (!options_.salvage) return false;
      builder_.count_damaged(1);
      if (find_next_event()) continue;
      builder_.note_cut_off();
      return false;
    }
    return true;
  }

  // One event and the comma or bracket behind it.
  bool read_event(bool& more) {
    const auto event_and_next = [&](JsonCursor& at) {
      return read_kineto_event(at, event_) && at.next(']', more);
    };
    const int64_t offset = window_.offset();
    if (!parse(event_and_next, "in event " + std::to_string(number_))) return false;
    if (const auto fault = builder_.add(event_)) {
      if (!noted_)
        fault_ = Error(ErrorKind::config, name_ + ": event " + std::to_string(number_) +
                                              " at byte " + std::to_string(offset) + " " + *fault +
                                              "; --salvage leaves it out");
      noted_ = true;
      if (!options_.salvage) return false;
      builder_.count_damaged(1);
    }
    return true;
  }

  // Behind a damaged event: the window begins at the next place that reads as a whole event. False: there is none.
  bool find_next_event() {
    window_.discard(window_.begin() + (window_.begin() < window_.end() ? 1 : 0));
    for (;;) {
      const char* brace = window_.begin();
      while (brace < window_.end() && *brace != '{') ++brace;
      window_.discard(brace);
      if (brace == window_.end()) {
        if (!window_.extend()) return false;
        continue;
      }
      KinetoEvent event;
      bool more = false;
      const auto whole_event = [&](JsonCursor& at) {
        return read_kineto_event(at, event) && at.next(']', more);
      };
      JsonCursor at = cursor();
      if (whole_event(at) && !event.phase.text.empty()) return true;
      if (at.fault() == JsonCursor::Fault::ran_out && window_.extend()) continue;
      window_.discard(window_.begin() + 1);
    }
  }

  ByteSource& source_;
  const std::string name_;
  const ImportOptions options_;
  Window window_;
  KinetoTraceBuilder builder_;
  KinetoEvent event_;
  int64_t number_ = 0;
  bool noted_ = false;
  Error fault_{ErrorKind::internal, "no fault was noted"};
};

}  // namespace

Trace read_kineto(const std::filesystem::path& path, const ImportOptions& options) {
  const auto source = open_bytes(path);
  Trace trace = Reader(*source, path.string(), options).read();
  assign_paths(trace);
  return trace;
}

}  // namespace dettax
