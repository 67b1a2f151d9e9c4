#pragma once

#include "profiles/import/json_cursor.h"

namespace dettax {

// The members of one event of Chrome's format that matter here, as they stand in the text; those that are missing are empty.
struct KinetoEvent {
  JsonToken phase, category, name, process, thread, start, duration;
  // of "args"
  JsonToken correlation, stream, device, bytes;
  JsonToken collective, group, group_ranks, group_size, sequence;
  JsonToken path, ordinal, own_category, own_name;  // this project's own
};

// Reads the object at the cursor. False: the cursor tells why and where.
bool read_kineto_event(JsonCursor& cursor, KinetoEvent& event);

}  // namespace dettax
