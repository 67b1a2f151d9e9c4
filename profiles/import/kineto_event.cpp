#include "profiles/import/kineto_event.h"

#include <string_view>

namespace dettax {
namespace {

using Field = JsonToken KinetoEvent::*;

Field member_field(std::string_view key) {
  switch (key.size()) {
    case 2:
      if (key == "ph") return &KinetoEvent::phase;
      if (key == "ts") return &KinetoEvent::start;
      return nullptr;
    case 3:
      if (key == "cat") return &KinetoEvent::category;
      if (key == "pid") return &KinetoEvent::process;
      if (key == "tid") return &KinetoEvent::thread;
      if (key == "dur") return &KinetoEvent::duration;
      return nullptr;
    default:
      return key == "name" ? &KinetoEvent::name : nullptr;
  }
}

Field argument_field(std::string_view key) {
  switch (key.size()) {
    case 3:
      return key == "Seq" ? &KinetoEvent::sequence : nullptr;
    case 4:
      if (key == "name") return &KinetoEvent::own_name;
      return key == "path" ? &KinetoEvent::path : nullptr;
    case 5:
      return key == "bytes" || key == "Bytes" ? &KinetoEvent::bytes : nullptr;
    case 6:
      if (key == "stream") return &KinetoEvent::stream;
      return key == "device" ? &KinetoEvent::device : nullptr;
    case 7:
      return key == "ordinal" ? &KinetoEvent::ordinal : nullptr;
    case 8:
      return key == "category" ? &KinetoEvent::own_category : nullptr;
    case 10:
      return key == "Group size" ? &KinetoEvent::group_size : nullptr;
    case 11:
      return key == "correlation" ? &KinetoEvent::correlation : nullptr;
    case 15:
      return key == "Collective name" ? &KinetoEvent::collective : nullptr;
    case 18:
      return key == "Process Group Name" ? &KinetoEvent::group : nullptr;
    case 19:
      return key == "Process Group Ranks" ? &KinetoEvent::group_ranks : nullptr;
    default:
      return nullptr;
  }
}

// The members of an object, those that `field_of` knows into `event`; `nested` may take one over.
template <typename FieldOf, typename Nested>
bool read_members(JsonCursor& cursor, KinetoEvent& event, const FieldOf& field_of,
                  const Nested& nested) {
  if (!cursor.expect('{')) return false;
  if (cursor.peek() == '}') return cursor.expect('}');
  JsonToken key, ignored;
  for (bool more = true; more;) {
    if (!cursor.key(key)) return false;
    bool taken = false;
    if (!nested(key.text, taken)) return false;
    if (!taken) {
      const Field field = field_of(key.text);
      if (!cursor.value(field == nullptr ? ignored : event.*field)) return false;
    }
    if (!cursor.next('}', more)) return false;
  }
  return true;
}

}  // namespace

bool read_kineto_event(JsonCursor& cursor, KinetoEvent& event) {
  event = KinetoEvent{};
  const auto nothing_nested = [](std::string_view, bool&) { return true; };
  return read_members(cursor, event, member_field, [&](std::string_view key, bool& taken) {
    taken = key == "args" && cursor.peek() == '{';
    return !taken || read_members(cursor, event, argument_field, nothing_nested);
  });
}

}  // namespace dettax
