// A stand-in for librdma.dylib and libibverbs.so.1, for tests on machines without
// RDMA: the same symbols and the same ABI, in memory that the processes of one
// machine share. It is strict where the real libraries are, so that a program that
// works here keeps to the documented limits of a device.
//
// It plays one of two devices:
//
//   apple  Thunderbolt as macOS has it. Only UC queue pairs; 10 of them and 100
//          memory regions a device; nothing is lost: a SEND waits for its RECV. Both
//          cover the same number of frames of 4 KiB.
//   nic    An ordinary adapter. RC, which needs more attributes on its way to RTS,
//          is lossless; on UC a message that finds no RECV is dropped.
//
// It is told what to do by the variable STANDIN and by standin_set, as name=value
// separated by commas:
//
//   nic=1        be the adapter
//   devices=N    how many there are: rdma_en0 to rdma_enN-1 ...
//   mlx=1        ... or mlx5_0 to mlx5_N-1
//   qps=N mrs=N  the limits of a device ...
//   silent=1     ... which it does not tell
//   gid=N        where in the table of GIDs the IPv4 one is; -1 for none
//   active=0     the port is down: no protection domain
//   fail=N       the N-th completion of the process, from 1, fails ...
//   status=S     ... with this status, 12 unless told
//   stuck=N      after N completions of the process there are no more
//   refuse=F     the verb named F fails from now on, with ...
//   after=N      ... the first N calls excepted ...
//   errno=E      ... and this errno
//   dir=PATH     where queue pairs are
//
// A queue pair is a file qp-NUMBER in that directory, which holds a ring of
// bytes that the peer writes and its owner reads. Data moves when somebody polls.
//
// If that directory has a file cut, with a byte for every device, the wire of those
// whose byte is not 0 is cut, for as long as that is so: nothing leaves and nothing
// comes, and nothing says so.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The structs of the ABI, as far as they are used. Offsets are in bytes; see abi.go.

struct cq;
struct qp;
struct wc;
struct send_wr;
struct recv_wr;

struct ibv_device { char unused[64]; char name[64]; };

struct context_ops {
	void *before[11];
	int (*poll_cq)(struct cq *, int, struct wc *); // 88
	void *between[13];
	int (*post_send)(struct qp *, struct send_wr *, struct send_wr **); // 200
	int (*post_recv)(struct qp *, struct recv_wr *, struct recv_wr **); // 208
	void *after[16];
};
struct context { struct ibv_device *device; struct context_ops ops; };
struct pd { struct context *context; };
struct mr { struct context *context; struct pd *pd; void *addr; size_t length; uint32_t handle, lkey, rkey; };
struct sge { uint64_t addr; uint32_t length, lkey; };
struct send_wr { uint64_t id; struct send_wr *next; struct sge *sg; int nsge, opcode; unsigned flags; };
struct recv_wr { uint64_t id; struct recv_wr *next; struct sge *sg; int nsge; };
struct wc { uint64_t id; int status, opcode; uint32_t vendor_err, byte_len, imm, qp_num, src_qp; int flags; char rest[8]; };
struct qp_init { void *context; struct cq *send_cq, *recv_cq; void *srq; uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline; int type, sig_all; };
struct port_attr { int state, max_mtu, active_mtu, gid_tbl_len; uint32_t rest1[4]; uint16_t rest2, lid; char rest3[16]; };
struct qp_attr {
	int state, cur_state, path_mtu, migration;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	int access;
	uint32_t cap[5];
	_Alignas(8) unsigned char dgid[16]; uint32_t flow_label; uint8_t sgid_index, hop_limit, traffic_class, pad1;
	uint16_t dlid; uint8_t sl, src_path_bits, static_rate, is_global, ah_port, pad2;
	char alternative[32];
	uint16_t pkey_index, alt_pkey_index;
	uint8_t notify, draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port, alt_timeout, pad3;
	uint32_t rate_limit;
};

_Static_assert(offsetof(struct context, ops.poll_cq) == 8 + 88, "ops.poll_cq");
_Static_assert(offsetof(struct context, ops.post_send) == 8 + 200, "ops.post_send");
_Static_assert(offsetof(struct mr, lkey) == 36, "mr.lkey");
_Static_assert(sizeof(struct sge) == 16 && sizeof(struct recv_wr) == 32 && sizeof(struct wc) == 48, "work requests");
_Static_assert(offsetof(struct send_wr, flags) == 32, "send_wr.flags");
_Static_assert(sizeof(struct qp_init) == 64 && offsetof(struct qp_init, type) == 52, "qp_init_attr");
_Static_assert(sizeof(struct port_attr) == 52 && offsetof(struct port_attr, lid) == 34, "port_attr");
_Static_assert(sizeof(struct qp_attr) == 144 && offsetof(struct qp_attr, dgid) == 56, "qp_attr.ah_attr");
_Static_assert(offsetof(struct qp_attr, port_num) == 129, "qp_attr.port_num");

enum { SEND_OPCODE = 2, SIGNALED = 2, WC_SEND = 0, WC_RECV = 128 };
enum { RC = 2, UC = 3, INIT = 1, RTR = 2, RTS = 3 };
enum { LOCAL_LENGTH = 1, LOCAL_PROTECTION = 4, RETRY_EXCEEDED = 12 };
enum { FRAME = 4096, QUEUE = 64, MAX_DEVICES = 64, MAX_REGIONS = 1024, RING = 1 << 18 };
enum {
	STATE = 1, ACCESS = 8, PKEY = 16, PORT = 32, AV = 128, PATH_MTU = 256, TIMEOUT = 512, RETRY = 1024, RNR = 2048,
	RQ_PSN = 4096, RD_ATOMIC = 8192, RNR_TIMER = 32768, SQ_PSN = 65536, DEST_RD_ATOMIC = 131072, DEST_QPN = 1 << 20
};

// The settings, with their defaults.
static struct { char name[16]; long value; } settings[] = {
	{"nic", 0}, {"mlx", 0}, {"devices", MAX_DEVICES}, {"qps", 10}, {"mrs", 100}, {"silent", 0}, {"gid", 1}, {"active", 1}, {"fail", 0},
	{"status", RETRY_EXCEEDED}, {"stuck", -1}, {"after", 0}, {"errno", EIO},
};
static char refuse[64], dir[400] = "/tmp";
static atomic_long refusals, completions;

static void map_cuts(void);
static void list_devices(void);

static long *setting(const char *name) {
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
		if (!strcmp(settings[i].name, name)) return &settings[i].value;
	fprintf(stderr, "standin: no setting %s\n", name);
	abort();
}

// standin_set takes settings as name=value,name=value. It resets the counts.
void standin_set(const char *text) {
	char copy[1024], *rest = copy, *item;
	snprintf(copy, sizeof copy, "%s", text);
	while ((item = strsep(&rest, ",")) != NULL) {
		char *value = strchr(item, '=');
		if (!value) continue;
		*value++ = 0;
		if (!strcmp(item, "refuse")) snprintf(refuse, sizeof refuse, "%s", value);
		else if (!strcmp(item, "dir")) snprintf(dir, sizeof dir, "%s", value);
		else *setting(item) = atol(value);
	}
	list_devices();
	atomic_store(&refusals, 0);
	atomic_store(&completions, 0);
}

__attribute__((constructor)) static void from_environment(void) {
	const char *s = getenv("STANDIN");
	list_devices();
	if (!s) return;
	standin_set(s);
	map_cuts();
}

// refused reports whether a verb must fail. If so, it sets errno.
static int refused(const char *verb) {
	if (strcmp(verb, refuse) || atomic_fetch_add(&refusals, 1) < *setting("after")) return 0;
	errno = (int)*setting("errno");
	return 1;
}

// The numbers of objects that exist, for tests that look for objects that were not released.
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct { int contexts, pds, cqs, qps, mrs; } live;

// standin_live returns how many objects have not been destroyed.
int standin_live(void) {
	pthread_mutex_lock(&mu);
	int n = live.contexts + live.pds + live.cqs + live.qps + live.mrs;
	pthread_mutex_unlock(&mu);
	return n;
}

// Devices.

static struct device { struct ibv_device d; int qps, mrs; struct { uintptr_t lo, hi; struct pd *pd; } regions[MAX_REGIONS]; } devices[MAX_DEVICES];
static struct ibv_device *list[MAX_DEVICES + 1];

// list_devices names the devices when the settings come, and not when the list is asked for:
// ranks of one process ask at once, and would read a name while another rank writes it.
static void list_devices(void) {
	int count = (int)*setting("devices");
	for (int i = 0; i < count; i++) {
		snprintf(devices[i].d.name, sizeof devices[i].d.name, *setting("mlx") ? "mlx5_%d" : "rdma_en%d", i);
		list[i] = &devices[i].d;
	}
	list[count] = NULL;
}

struct ibv_device **ibv_get_device_list(int *n) {
	if (refused("ibv_get_device_list")) return NULL;
	if (n) *n = (int)*setting("devices");
	return list;
}
void ibv_free_device_list(struct ibv_device **l) { (void)l; }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

// A work request with the device: length bytes at p, of which done have moved.
struct request { uint64_t id; char *p; uint32_t length, done; int status, signaled; };
struct queue { struct request r[QUEUE]; uint32_t first, count, max; };

// ring is a queue pair's file: what its peer has sent and it has not yet received.
// read and written count bytes from the beginning.
struct ring { _Atomic uint64_t written, read; char bytes[RING]; };

struct qp {
	struct context *context; // 0, as the ABI has it
	char unused[44];
	uint32_t qp_num; // 52
	struct pd *pd;
	struct cq *cq;
	struct qp *next;
	int type, state;
	struct queue sends, recvs;
	struct ring *in, *out;
	uint32_t total, left, dropping; // the message that is coming in
	char path[512];
};
_Static_assert(offsetof(struct qp, qp_num) == 52, "qp.qp_num");
struct cq { struct context *context; struct qp *qps; int size, held; };

// put and get move bytes between a ring and memory.
static void put(struct ring *r, uint64_t at, const char *p, uint32_t n) {
	uint32_t i = (uint32_t)(at % RING), k = n < RING - i ? n : RING - i;
	memcpy(r->bytes + i, p, k);
	memcpy(r->bytes, p + k, n - k);
}
static void get(struct ring *r, uint64_t at, char *p, uint32_t n) {
	uint32_t i = (uint32_t)(at % RING), k = n < RING - i ? n : RING - i;
	memcpy(p, r->bytes + i, k);
	memcpy(p + k, r->bytes, n - k);
}

static uint32_t frames(uint32_t n) { return (n + FRAME - 1) / FRAME; }

static int complete(struct wc *wc, struct qp *q, struct queue *from, int opcode, int status, uint32_t length) {
	struct request *r = &from->r[from->first];
	int signaled = r->signaled;
	if (signaled) {
		memset(wc, 0, sizeof *wc);
		long n = atomic_fetch_add(&completions, 1) + 1;
		wc->id = r->id;
		wc->status = n == *setting("fail") ? (int)*setting("status") : status;
		wc->opcode = opcode;
		wc->byte_len = length;
		wc->qp_num = q->qp_num;
	}
	from->first = (from->first + 1) % QUEUE;
	from->count--;
	return signaled;
}

// cuts is the file cut, if there is one.
static unsigned char *cuts;

static void map_cuts(void) {
	char path[512];
	snprintf(path, sizeof path, "%s/cut", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return;
	if (lseek(fd, 0, SEEK_END) >= MAX_DEVICES) {
		void *p = mmap(NULL, MAX_DEVICES, PROT_READ, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) cuts = p;
	}
	close(fd);
}

// cut reports whether the wire of a queue pair's device is cut.
static int cut(struct qp *q) { return cuts && ((volatile unsigned char *)cuts)[(struct device *)q->context->device - devices]; }

// stuck reports whether there must be no more completions.
static int stuck(void) { return *setting("stuck") >= 0 && atomic_load(&completions) >= *setting("stuck"); }

// push moves as much of the first SEND as fits into the peer's ring.
static int push(struct qp *q, struct wc *wc) {
	struct request *r = &q->sends.r[q->sends.first];
	if (r->status) return complete(wc, q, &q->sends, WC_SEND, r->status, 0);
	uint64_t written = atomic_load_explicit(&q->out->written, memory_order_relaxed);
	uint64_t room = RING - (written - atomic_load_explicit(&q->out->read, memory_order_acquire));
	if (r->done == 0) { // a header: the message's length
		if (room < 4 + 1) return 0;
		put(q->out, written, (char *)&r->length, 4);
		written += 4;
		room -= 4;
	}
	uint32_t n = r->length - r->done < room ? r->length - r->done : (uint32_t)room;
	put(q->out, written, r->p + r->done, n);
	r->done += n;
	atomic_store_explicit(&q->out->written, written + n, memory_order_release);
	return r->done == r->length ? complete(wc, q, &q->sends, WC_SEND, 0, r->length) : 0;
}

// pull moves bytes that have come into the first RECV. On a lossless device a message waits
// for a RECV.
static int pull(struct qp *q, struct wc *wc) {
	uint64_t at = atomic_load_explicit(&q->in->read, memory_order_relaxed);
	uint64_t ready = atomic_load_explicit(&q->in->written, memory_order_acquire) - at;
	if (q->left == 0) {
		if (ready < 4 || (q->recvs.count == 0 && !(*setting("nic") && q->type == UC))) return 0;
		get(q->in, at, (char *)&q->total, 4);
		q->left = q->total;
		q->dropping = q->recvs.count == 0;
		at += 4;
		ready -= 4;
	}
	struct request *r = q->dropping ? NULL : &q->recvs.r[q->recvs.first];
	uint32_t n = q->left < ready ? q->left : (uint32_t)ready;
	int fits = r && (*setting("nic") ? q->total <= r->length : frames(q->total) == frames(r->length));
	if (fits) get(q->in, at, r->p + q->total - q->left, n);
	q->left -= n;
	atomic_store_explicit(&q->in->read, at + n, memory_order_release);
	if (q->left || !r) return 0;
	return complete(wc, q, &q->recvs, WC_RECV, r->status ? r->status : fits ? 0 : LOCAL_LENGTH, q->total);
}

static int poll_cq(struct cq *cq, int max, struct wc *wc) {
	int n = 0;
	for (struct qp *q = cq->qps; q; q = q->next) {
		uint32_t before;
		if (cut(q)) continue;
		do {
			if (stuck() || n == max || !q->sends.count || q->state != RTS) break;
			before = q->sends.count;
			n += push(q, wc + n);
		} while (q->sends.count < before);
		do {
			if (stuck() || n == max) break;
			before = q->recvs.count;
			n += pull(q, wc + n);
		} while (q->recvs.count < before);
	}
	return n;
}

// post checks a work request as a device does.
static int post(struct qp *q, struct queue *to, struct sge *s, int nsge, uint64_t id, int signaled) {
	if (nsge != 1) return EINVAL;
	if (to->count >= to->max) return ENOMEM;
	struct request *r = &to->r[(to->first + to->count++) % QUEUE];
	*r = (struct request){id, (char *)(uintptr_t)s->addr, s->length, 0, LOCAL_PROTECTION, signaled};
	struct device *d = (struct device *)q->context->device;
	if (s->lkey < MAX_REGIONS && d->regions[s->lkey].pd == q->pd && s->addr >= d->regions[s->lkey].lo && s->addr + s->length <= d->regions[s->lkey].hi)
		r->status = 0;
	return 0;
}

static int post_send(struct qp *q, struct send_wr *w, struct send_wr **bad) {
	for (; w; w = w->next) {
		int e = q->state != RTS || w->opcode != SEND_OPCODE ? EINVAL : post(q, &q->sends, w->sg, w->nsge, w->id, (w->flags & SIGNALED) != 0);
		if (e) { *bad = w; return e; }
	}
	return 0;
}

static int post_recv(struct qp *q, struct recv_wr *w, struct recv_wr **bad) {
	for (; w; w = w->next) {
		int e = q->state < RTR ? EINVAL : post(q, &q->recvs, w->sg, w->nsge, w->id, 1);
		if (e) { *bad = w; return e; }
	}
	return 0;
}

#define NEW(type, counter) \
	type *x = calloc(1, sizeof *x); \
	pthread_mutex_lock(&mu); live.counter++; pthread_mutex_unlock(&mu)
#define DELETE(x, counter) \
	pthread_mutex_lock(&mu); live.counter--; pthread_mutex_unlock(&mu); \
	free(x)

struct context *ibv_open_device(struct ibv_device *d) {
	if (refused("ibv_open_device")) return NULL;
	NEW(struct context, contexts);
	x->device = d;
	x->ops.poll_cq = poll_cq;
	x->ops.post_send = post_send;
	x->ops.post_recv = post_recv;
	return x;
}
int ibv_close_device(struct context *c) { DELETE(c, contexts); return 0; }

struct pd *ibv_alloc_pd(struct context *c) {
	if (refused("ibv_alloc_pd")) return NULL;
	if (!*setting("active")) { errno = ENODEV; return NULL; }
	NEW(struct pd, pds);
	x->context = c;
	return x;
}
int ibv_dealloc_pd(struct pd *p) {
	struct device *d = (struct device *)p->context->device;
	for (int i = 0; i < MAX_REGIONS; i++)
		if (d->regions[i].pd == p) return EBUSY;
	DELETE(p, pds);
	return 0;
}

struct cq *ibv_create_cq(struct context *c, int n, void *user, void *channel, int vector) {
	(void)user, (void)channel, (void)vector;
	if (refused("ibv_create_cq")) return NULL;
	NEW(struct cq, cqs);
	x->context = c;
	x->size = n;
	return x;
}
int ibv_destroy_cq(struct cq *c) {
	if (c->qps) return EBUSY;
	DELETE(c, cqs);
	return 0;
}

struct mr *ibv_reg_mr(struct pd *p, void *a, size_t n, int access) {
	if (refused("ibv_reg_mr")) return NULL;
	struct device *d = (struct device *)p->context->device;
	if ((uintptr_t)a % FRAME || access != 7) { errno = EINVAL; return NULL; } // Apple's refuses local write alone
	pthread_mutex_lock(&mu);
	int key = 1;
	while (key < MAX_REGIONS && d->regions[key].pd) key++;
	if (d->mrs >= *setting("mrs") || key == MAX_REGIONS) { pthread_mutex_unlock(&mu); errno = ENOMEM; return NULL; }
	d->mrs++;
	d->regions[key].lo = (uintptr_t)a, d->regions[key].hi = (uintptr_t)a + n, d->regions[key].pd = p;
	pthread_mutex_unlock(&mu);
	NEW(struct mr, mrs);
	*x = (struct mr){p->context, p, a, n, 0, (uint32_t)key, 0};
	return x;
}
int ibv_dereg_mr(struct mr *m) {
	struct device *d = (struct device *)m->context->device;
	pthread_mutex_lock(&mu);
	d->mrs--;
	d->regions[m->lkey].pd = NULL;
	pthread_mutex_unlock(&mu);
	DELETE(m, mrs);
	return 0;
}

static struct ring *map(const char *path, int create) {
	int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
	if (fd < 0) return NULL;
	void *p = create && ftruncate(fd, sizeof(struct ring)) ? MAP_FAILED : mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static void path_of(char *path, size_t n, uint32_t qp_num) {
	snprintf(path, n, "%s/qp-%u", dir, qp_num);
}

struct qp *ibv_create_qp(struct pd *p, struct qp_init *a) {
	static _Atomic uint32_t next;
	struct device *d = (struct device *)p->context->device;
	if (refused("ibv_create_qp")) return NULL;
	if (a->type != UC && !(a->type == RC && *setting("nic"))) { errno = EOPNOTSUPP; return NULL; }
	if (a->send_cq != a->recv_cq || a->max_send_sge != 1 || a->max_recv_sge != 1 || a->max_send_wr > QUEUE || a->max_recv_wr > QUEUE ||
		a->send_cq->size < (int)(a->max_send_wr + a->max_recv_wr)) { errno = EINVAL; return NULL; }
	pthread_mutex_lock(&mu);
	int full = d->qps >= *setting("qps");
	if (!full) d->qps++;
	pthread_mutex_unlock(&mu);
	if (full) { errno = EBUSY; return NULL; }
	NEW(struct qp, qps);
	x->context = p->context, x->pd = p, x->cq = a->send_cq, x->type = a->type;
	x->sends.max = a->max_send_wr, x->recvs.max = a->max_recv_wr;
	x->qp_num = (uint32_t)getpid() * 256u + next++ % 256u;
	path_of(x->path, sizeof x->path, x->qp_num);
	if (!(x->in = map(x->path, 1))) { perror(x->path); abort(); }
	x->next = x->cq->qps;
	x->cq->qps = x;
	return x;
}
int ibv_destroy_qp(struct qp *q) {
	struct qp **pp = &q->cq->qps;
	while (*pp != q) pp = &(*pp)->next;
	*pp = q->next;
	munmap(q->in, sizeof *q->in);
	if (q->out) munmap(q->out, sizeof *q->out);
	unlink(q->path);
	pthread_mutex_lock(&mu);
	((struct device *)q->context->device)->qps--;
	pthread_mutex_unlock(&mu);
	DELETE(q, qps);
	return 0;
}

int ibv_query_port(struct context *c, uint8_t port, struct port_attr *a) {
	(void)c;
	if (refused("ibv_query_port")) return errno;
	if (port != 1) return EINVAL;
	memset(a, 0, sizeof *a);
	a->state = 4; // active
	a->max_mtu = a->active_mtu = 3;
	a->gid_tbl_len = 8;
	return 0;
}

// The limits as struct ibv_device_attr has them: max_qp and max_mr, or none with silent=1.
int ibv_query_device(struct context *c, char *a) {
	(void)c;
	if (refused("ibv_query_device")) return errno;
	memset(a, 0, 232);
	if (*setting("silent")) return 0;
	int qps = (int)*setting("qps"), mrs = (int)*setting("mrs");
	memcpy(a + 108, &qps, 4);
	memcpy(a + 136, &mrs, 4);
	return 0;
}

int ibv_query_gid(struct context *c, uint8_t port, int i, unsigned char *gid) {
	(void)c;
	if (port != 1 || i < 0 || i >= 8) return -1;
	memset(gid, 0, 16);
	if (i == *setting("gid")) {
		gid[10] = gid[11] = 0xff;
		gid[12] = 169, gid[13] = 254, gid[15] = 1;
	} else if (i == 0) { // link-local
		gid[0] = 0xfe, gid[1] = 0x80, gid[15] = 1;
	}
	return 0;
}

int ibv_modify_qp(struct qp *q, struct qp_attr *a, int mask) {
	if (refused("ibv_modify_qp")) return errno;
	if (!(mask & STATE) || a->state != q->state + 1) return EINVAL;
	int rc = q->type == RC;
	switch (a->state) {
	case INIT:
		if (mask != (STATE | PKEY | PORT | ACCESS) || a->port_num != 1 || a->access != 7) return EINVAL;
		break;
	case RTR: {
		if (mask != (STATE | AV | PATH_MTU | DEST_QPN | RQ_PSN | (rc ? DEST_RD_ATOMIC | RNR_TIMER : 0))) return EINVAL;
		if (!a->is_global || a->ah_port != 1 || a->sgid_index != *setting("gid") || a->dgid[10] != 0xff || a->dgid[11] != 0xff) return EINVAL;
		if (a->path_mtu != 3 || a->rq_psn != 7) return EINVAL;
		char path[512];
		path_of(path, sizeof path, a->dest_qp_num);
		if (!(q->out = map(path, 0))) return ETIMEDOUT;
		break;
	}
	case RTS:
		if (mask != (STATE | SQ_PSN | (rc ? TIMEOUT | RETRY | RNR | RD_ATOMIC : 0)) || a->sq_psn != 7) return EINVAL;
		if (rc && (!a->timeout || a->rnr_retry != 7)) return EINVAL;
		break;
	default:
		return EINVAL;
	}
	q->state = a->state;
	return 0;
}
