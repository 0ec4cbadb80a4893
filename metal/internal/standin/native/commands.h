// MTLSharedEvent, MTLCommandQueue and MTLCommandBuffer: waiting, and running the work waited for. A
// command buffer runs only when somebody waits for it, or for a later one in its queue. So a
// program reading results without waiting reads poison.
#pragma once
#include <chrono>
#include "buffer.h"
#include "library.h"
#include "watchdog.h"

typedef std::chrono::steady_clock Clock;

struct Event : Object {
  uint64_t value = 0;
  uint64_t awaited = 0;  // the value being waited for and not yet reached
  uint64_t lost = 0;     // the value if no command buffer had failed
  String* label = nullptr;
  static const char* class_name() { return "MTLSharedEvent"; }
  void finished() {
    if (awaited > value && awaited > lost)
      violation(format("an event was waited for until it had value %llu, and nobody signalled more than %llu", (unsigned long long)awaited, (unsigned long long)value));
    release(label);
    label = nullptr;
  }
};

// Step is a part of a command buffer that runs without interruption: a signal, a wait, or work,
// returning the text of an error or "".
struct Step {
  std::function<std::string()> work;
  Event* event;
  uint64_t value;
  bool signal;
};

struct Queue;
struct Encoder;

enum { not_enqueued, enqueued, committed, scheduled, completed, failed };

struct CommandBuffer : Object {
  Queue* queue = nullptr;
  Encoder* open = nullptr;
  std::vector<Step> steps;
  size_t next = 0;
  std::vector<Object*> held;
  int status = not_enqueued;
  Error* failure = nullptr;
  double start = 0, end = 0;
  String* label = nullptr;
  static const char* class_name() { return "MTLCommandBuffer"; }
  void hold(Object* o) {
    retain(o);
    held.push_back(o);
  }
  void let_go() {
    steps.clear();
    for (Object* o : held) release(o);
    held.clear();
  }
  void finished();
  std::string name() const { return label ? "command buffer " + label->text : "a command buffer"; }
};

struct Queue : Object {
  std::deque<CommandBuffer*> pending;  // committed and not completed
  std::vector<CommandBuffer*> made;    // not completed
  bool busy = false;                   // a thread runs a step
  String* label = nullptr;
  Object* resident = nullptr;          // a residency set
  static const char* class_name() { return "MTLCommandQueue"; }
  void finished();
};
static std::vector<Queue*> queues;
static long residency_sets;  // that exist
static const size_t most_uncompleted = 64;

void Queue::finished() {
  release(label);
  release(resident);
  label = nullptr, resident = nullptr;
  for (size_t i = 0; i < queues.size(); i++)
    if (queues[i] == this) queues.erase(queues.begin() + i--);
}

static void forget(Queue* q, CommandBuffer* c) {
  for (size_t i = 0; i < q->made.size(); i++)
    if (q->made[i] == c) q->made.erase(q->made.begin() + i--);
}

void CommandBuffer::finished() {
  if (open) violation(name() + " was released with an open encoder");
  forget(queue, this);
  let_go();
  release(failure);
  release(label);
  release(queue);
  failure = nullptr, label = nullptr;
}

// Injected is a failure requested by tests.
static struct {
  long after = -1;  // command buffers that run before the one that fails
  std::string domain, text;
  long code;
} injected;

static const char* command_domain = "MTLCommandBufferErrorDomain";
enum { command_timeout = 2, command_page_fault = 3 };

static void fail(CommandBuffer* c, const std::string& domain, long code, const std::string& text) {
  if (c->failure) return;
  c->failure = error(domain, code, text);
}

static bool drive(Lock& lock, Queue* q, const std::function<bool()>& done, Clock::time_point deadline);

// signaller returns a queue that will signal an event to at least value.
static Queue* signaller(Event* e, uint64_t value, Queue* but) {
  for (Queue* q : queues) {
    if (q == but) continue;
    for (CommandBuffer* c : q->pending)
      for (size_t i = c->next; i < c->steps.size(); i++)
        if (c->steps[i].signal && c->steps[i].event == e && c->steps[i].value >= value) return q;
  }
  return nullptr;
}

// reach runs the work needed for an event to have a value, and no more; or it waits until another
// thread signals the event.
static bool reach(Lock& lock, Event* e, uint64_t value, Queue* but, Clock::time_point deadline) {
  while (e->value < value) {
    if (Queue* q = signaller(e, value, but)) {
      if (!drive(lock, q, [=] { return e->value >= value; }, deadline) && Clock::now() >= deadline) break;
    } else if (changed.wait_until(lock, deadline) == std::cv_status::timeout) {
      break;
    }
  }
  return e->value >= value;
}

// run_step runs the next step of a queue's first command buffer, or completes the command buffer.
// It returns false if the deadline passed before the event that the step waits for.
static bool run_step(Lock& lock, Queue* q, Clock::time_point deadline) {
  CommandBuffer* c = q->pending.front();
  if (c->status == committed) {
    c->status = scheduled;
    c->start = seconds_of(CLOCK_MONOTONIC);
    if (injected.after >= 0 && injected.after-- == 0) fail(c, injected.domain, injected.code, injected.text);
  }
  if (c->failure || c->next == c->steps.size()) {
    c->end = seconds_of(CLOCK_MONOTONIC);
    c->status = c->failure ? failed : completed;
    for (Step& s : c->steps)
      if (c->failure && s.signal && s.value > s.event->lost) s.event->lost = s.value;
    q->pending.pop_front();
    forget(q, c);
    c->let_go();
    release(c);
    return true;
  }
  Step& s = c->steps[c->next];
  if (s.work) {
    lock.unlock();
    std::string text = s.work();
    lock.lock();
    if (!text.empty()) fail(c, command_domain, command_page_fault, text);
  } else if (s.signal) {
    if (s.value > s.event->value) s.event->value = s.value;
  } else if (!reach(lock, s.event, s.value, q, deadline)) {
    return false;
  }
  c->next++;
  return true;
}

static const Clock::time_point at_once = Clock::time_point::min();

// drive runs a queue's steps in order, until done returns true, nothing is left, or the deadline
// has passed and at least one step has run. With the deadline at_once it runs all steps that do
// not wait for other threads.
static bool drive(Lock& lock, Queue* q, const std::function<bool()>& done, Clock::time_point deadline) {
  retain(q);
  bool ended = false;
  while (!(ended = done())) {
    if (q->busy) {
      if (changed.wait_until(lock, deadline) == std::cv_status::timeout) break;
      continue;
    }
    if (q->pending.empty()) break;
    q->busy = true;
    bool ran = run_step(lock, q, deadline);
    q->busy = false;
    changed.notify_all();
    if (!ran || (deadline != at_once && Clock::now() >= deadline)) {
      ended = done();
      break;
    }
  }
  release(q);
  return ended;
}

static Clock::time_point after(uint64_t milliseconds) {
  const uint64_t year = 365ull * 24 * 3600 * 1000;
  return Clock::now() + std::chrono::milliseconds(milliseconds < year ? milliseconds : year);
}

static Object* device_event(Object*, SEL) {
  Lock lock(mu);
  return make<Event>();
}

static Word event_value(Event* e, SEL) {
  Lock lock(mu);
  return e->value;
}

static void event_set(Event* e, SEL, Word value) {
  Lock lock(mu);
  if (value < e->value) violation(format("setSignaledValue: %lu, after %llu; values of an event grow", (unsigned long)value, (unsigned long long)e->value));
  e->value = value;
  changed.notify_all();
}

static Bool event_wait(Event* e, SEL, Word value, Word milliseconds) {
  Lock lock(mu);
  temporary();
  retain(e);
  bool reached = reach(lock, e, value, nullptr, after(milliseconds));
  if (!reached && value > e->awaited) e->awaited = value;
  release(e);
  // A BOOL is one byte; the other bytes of the register are undefined.
  return (Bool)(0xABCDEF00 | reached);
}

static Object* device_queue(Object*, SEL) {
  Lock lock(mu);
  Queue* q = make<Queue>();
  queues.push_back(q);
  return q;
}

static Object* queue_buffer(Queue* q, SEL) {
  Lock lock(mu);
  while (q->made.size() >= most_uncompleted) {
    CommandBuffer* first = q->made.front();
    if (first->status < committed) {
      violation(format("commandBuffer: %zu command buffers of the queue have not completed, and the first is not committed: this waits forever", q->made.size()));
      break;
    }
    if (!drive(lock, q, [=] { return q->made.empty() || q->made.front() != first; }, after(settings.stall)) && first->status == committed) break;
  }
  CommandBuffer* c = make<CommandBuffer>();
  c->queue = q;
  retain(q);
  q->made.push_back(c);
  return autorelease(c);
}

static bool editable(CommandBuffer* c, const char* what) {
  if (c->status >= committed) violation(c->name() + ": " + what + " after commit");
  if (c->open) violation(c->name() + ": " + what + " while an encoder is open");
  return c->status < committed && !c->open;
}

static void buffer_signal(CommandBuffer* c, SEL, Event* e, Word value) {
  Lock lock(mu);
  if (!e || !editable(c, "encodeSignalEvent:value:")) return;
  c->hold(e);
  c->steps.push_back({nullptr, e, value, true});
}

static void buffer_wait(CommandBuffer* c, SEL, Event* e, Word value) {
  Lock lock(mu);
  if (!e || !editable(c, "encodeWaitForEvent:value:")) return;
  c->hold(e);
  c->steps.push_back({nullptr, e, value, false});
}

static void buffer_commit(CommandBuffer* c, SEL) {
  Lock lock(mu);
  if (residency_sets > 0 && !c->queue->resident) violation("commit: there is a residency set, and the queue does not have it");
  if (!editable(c, "commit")) return;
  temporary();
  done.commits++;
  c->status = committed;
  retain(c);
  c->queue->pending.push_back(c);
  changed.notify_all();
  if (settings.eager) drive(lock, c->queue, [] { return false; }, at_once);
}

static void buffer_complete(CommandBuffer* c, SEL) {
  Lock lock(mu);
  if (c->status < committed) {
    violation(c->name() + ": waitUntilCompleted before commit: this waits forever");
    return;
  }
  retain(c);
  done.waits++;
  Queue* q = c->queue;
  // A GPU making no progress is stopped: after a stall the first blocking command buffer, which
  // waits for an event, fails as with Metal.
  while (c->status < completed) {
    CommandBuffer* first = q->pending.empty() ? nullptr : q->pending.front();
    size_t next = first ? first->next : 0;
    if (drive(lock, q, [=] { return c->status >= completed; }, after(settings.stall))) break;
    if (q->busy || !first || q->pending.front() != first || first->next != next) continue;
    Step& s = first->steps[next];
    std::string text = format("waits for value %llu of an event, which nobody has signalled: it is %llu", (unsigned long long)s.value, (unsigned long long)s.event->value);
    violation(first->name() + " " + text);
    fail(first, command_domain, command_timeout, "Caused GPU Timeout Error: " + text);
  }
  release(c);
}

static Word buffer_status(CommandBuffer* c, SEL) {
  Lock lock(mu);
  return (Word)c->status;
}

static Object* buffer_error(CommandBuffer* c, SEL) {
  Lock lock(mu);
  if (!c->failure) return nullptr;
  retain(c->failure);
  return autorelease(c->failure);
}

static double buffer_start(CommandBuffer* c, SEL) {
  Lock lock(mu);
  return c->start;
}

static double buffer_end(CommandBuffer* c, SEL) {
  Lock lock(mu);
  return c->end;
}

template <class T>
static void set_label(T* o, SEL, String* s) {
  Lock lock(mu);
  retain(s);
  release(o->label);
  o->label = s;
}
