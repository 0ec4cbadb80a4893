// Methods as Apple's compiler sees them, which write down what they are given. The
// receiver is the memory in which they do.
typedef unsigned long Word;
typedef struct {
  Word width, height, depth;
} Size;
typedef struct {
  Word location, length;
} Range;
typedef struct {
  Word size, align;
} SizeAndAlign;

void dispatch(Word* self, Word cmd, Size groups, Size threads) {
  self[0] = cmd;
  self[1] = groups.width, self[2] = groups.height, self[3] = groups.depth;
  self[4] = threads.width, self[5] = threads.height, self[6] = threads.depth;
  // Structures passed by value are the callee's: it may write to them.
  volatile Size *g = &groups, *t = &threads;
  g->width = g->height = g->depth = t->width = t->height = t->depth = 77;
}

void fill(Word* self, Word cmd, Word buffer, Range range, unsigned char value) {
  self[0] = cmd;
  self[1] = buffer, self[2] = range.location, self[3] = range.length, self[4] = value;
}

void copy(Word* self, Word cmd, Word from, Word from_offset, Word to, Word to_offset, Word n) {
  self[0] = cmd;
  self[1] = from, self[2] = from_offset, self[3] = to, self[4] = to_offset, self[5] = n;
}

double seconds(Word* self, Word cmd) {
  union {
    Word bits;
    double value;
  } u = {self[0]};
  self[1] = cmd;
  return u.value;
}

SizeAndAlign heap(Word* self, Word cmd, Word n, Word options) {
  self[0] = cmd, self[1] = n, self[2] = options;
  return (SizeAndAlign){n * 3, n * 5};
}

void version(Word* self, Word cmd, Size version) {
  self[0] = cmd, self[1] = version.width, self[2] = version.height, self[3] = version.depth;
}

// A BOOL is a byte; what is above it in the register is whatever was there.
Word boolean(Word* self, Word cmd, Word value) { return self[0] | (value & 255); }
