// A watchdog stops kernels running for too long, as a GPU does, so that an endless loop is an error
// and does not block every wait. It measures the thread's processor time and not the elapsed time,
// because other programs may use the processor, too.
#pragma once
#include <time.h>
#include <chrono>
#include <thread>
#include "library.h"

static double seconds_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Run is a running launch.
struct Run {
  void* worker;
  void (*stop)(void*);
  clockid_t clock;  // processor time of its thread
  double until;
  bool stopped;
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
    for (Run* r : watchdog.runs) {
      if (seconds_of(r->clock) < r->until) continue;
      r->stopped = true;
      r->stop(r->worker);  // may come too early, so it is called again
    }
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
    clockid_t clock;
    pthread_getcpuclockid(pthread_self(), &clock);
    run = {worker, stop, clock, seconds_of(clock) + 1e-3 * settings.limit, false};
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
  bool late() const {
    std::unique_lock<std::mutex> lock(watchdog.mu);
    return run.stopped;
  }
};

static void close_watchdog() {
  {
    std::unique_lock<std::mutex> lock(watchdog.mu);
    watchdog.closing = true;
    watchdog.changed.notify_one();
  }
  if (watchdog.thread.joinable()) watchdog.thread.join();
}
