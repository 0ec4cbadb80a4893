// A watchdog over kernels: one that runs for too long is stopped, as a GPU's are, so that
// an endless loop is an error and not the end of all waits.
#pragma once
#include <chrono>
#include <thread>
#include "library.h"

// Runs are the launches that run now, on however many threads.
struct Run {
  void* worker;
  void (*stop)(void*);
  std::chrono::steady_clock::time_point until;
};

static struct {
  std::mutex mu;
  std::condition_variable changed;
  std::vector<Run*> runs;
  std::thread thread;
  bool closing = false;
} watchdog;

static void watch() {
  std::unique_lock<std::mutex> lock(watchdog.mu);
  while (!watchdog.closing) {
    auto now = std::chrono::steady_clock::now();
    for (Run* r : watchdog.runs)
      if (now >= r->until) r->stop(r->worker);  // which may come too early: so it is asked again
    if (watchdog.runs.empty())
      watchdog.changed.wait(lock);
    else
      watchdog.changed.wait_for(lock, std::chrono::milliseconds(50));
  }
}

// Watched is a launch while it runs.
struct Watched {
  Run run;
  Watched(void* worker, void (*stop)(void*)) {
    run = {worker, stop, std::chrono::steady_clock::now() + std::chrono::milliseconds(settings.limit)};
    std::unique_lock<std::mutex> lock(watchdog.mu);
    if (!watchdog.thread.joinable()) watchdog.thread = std::thread(watch);
    watchdog.runs.push_back(&run);
    if (watchdog.runs.size() == 1) watchdog.changed.notify_one();
  }
  ~Watched() {
    std::unique_lock<std::mutex> lock(watchdog.mu);
    for (size_t i = 0; i < watchdog.runs.size(); i++)
      if (watchdog.runs[i] == &run) watchdog.runs.erase(watchdog.runs.begin() + (long)i--);
  }
  bool late() const { return std::chrono::steady_clock::now() >= run.until; }
};

static void close_watchdog() {
  {
    std::unique_lock<std::mutex> lock(watchdog.mu);
    watchdog.closing = true;
    watchdog.changed.notify_one();
  }
  if (watchdog.thread.joinable()) watchdog.thread.join();
}
