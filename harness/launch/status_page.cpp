#include "harness/launch/status_page.h"

#include <algorithm>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace dettax {

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<char>::is_always_lock_free,
              "the page is shared between processes");

void RankStatus::set_op(std::string_view text) {
  const size_t length = std::min(text.size(), kTextBytes - 1);
  for (size_t i = 0; i < length; ++i) op[i].store(text[i], std::memory_order_relaxed);
  op[length].store('\0', std::memory_order_release);
}

std::string RankStatus::op_text() const {
  std::string text;
  for (const std::atomic<char>& character : op) {
    const char c = character.load(std::memory_order_relaxed);
    if (c == '\0') break;
    text += c;
  }
  return text;
}

StatusPage::StatusPage(Descriptor memory, bool fresh) : memory_(std::move(memory)) {
  void* mapped =
      ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (mapped == MAP_FAILED) throw_errno("cannot map a worker's status page");
  layout_ = fresh ? new (mapped) Layout : static_cast<Layout*>(mapped);
}

StatusPage StatusPage::create() {
  Descriptor memory(::memfd_create("dettax-status", MFD_CLOEXEC));
  if (!memory) throw_errno("cannot make a worker's status page");
  if (::ftruncate(memory.get(), sizeof(Layout)) != 0) throw_errno("cannot size a status page");
  return StatusPage(std::move(memory), true);
}

StatusPage StatusPage::open(Descriptor memory) { return StatusPage(std::move(memory), false); }

StatusPage::StatusPage(StatusPage&& other) noexcept
    : memory_(std::move(other.memory_)), layout_(std::exchange(other.layout_, nullptr)) {}

StatusPage::~StatusPage() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(Layout));
}

}  // namespace dettax
