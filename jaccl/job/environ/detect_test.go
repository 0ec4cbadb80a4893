package environ

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vars returns the variables of a text such as "A=1 B=2".
func vars(s string) func(string) string {
	m := map[string]string{}
	for _, f := range strings.Fields(s) {
		name, value, _ := strings.Cut(f, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

// files writes MLX's files and returns their paths.
func files(t *testing.T) (nodes, devices, bad string) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	return write("nodes", `[["127.0.0.1:32323"], ["127.0.0.1:32324","10.0.0.1:3"], ["127.0.0.1:32325"]]`),
		write("devices", `[[null,"rdma_en5"],["rdma_en5",null]]`), write("bad", `{"a":1}`)
}

func TestDetect(t *testing.T) {
	nodes, devices, _ := files(t)
	for _, c := range []struct{ env, want string }{
		{"", "none"},
		{"GOMOE_TRANSPORT=tcp MASTER_ADDR=a GOMOE_COORDINATOR=b:1", "none transport=tcp"},
		{"GOMOE_RANK=1 GOMOE_SIZE=4 GOMOE_COORDINATOR=h:7 GOMOE_JOB=id GOMOE_LOCAL_RANK=1 GOMOE_LOCAL_SIZE=2 GOMOE_TRANSPORT=shm GOMOE_LIFELINE=3 GOMOE_LISTENER=4",
			"gomoe 1/4 local 1/2 at h:7 id id transport=shm lifeline=3"},
		{"GOMOE_RANK=0 GOMOE_SIZE=4 GOMOE_COORDINATOR=h:7 GOMOE_LISTENER=4", "gomoe 0/4 at h:7 id at-h:7 listener=4"},
		// The first convention decides, if the others agree.
		{"GOMOE_RANK=1 GOMOE_SIZE=4 GOMOE_COORDINATOR=h:7 RANK=1 WORLD_SIZE=4 MASTER_ADDR=x MASTER_PORT=9 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", "gomoe 1/4 at h:7 id at-h:7"},
		{"RANK=1 WORLD_SIZE=4 MASTER_ADDR=fe80::1 MASTER_PORT=9", "torch 1/4 at [fe80::1]:9 id at-[fe80::1]:9"},
		{"RANK=1 WORLD_SIZE=4 MASTER_ADDR=x MASTER_PORT=9 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", "torch 1/4 local 1/4 at x:9 id torch-none.2"},
		{"RANK=1 WORLD_SIZE=4 MASTER_ADDR=x MASTER_PORT=9 TORCHELASTIC_RUN_ID=a TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=True", "torch 1/4 at x:" + derivedPort("torch-a.0 9") + " id torch-a.0"},
		{"RANK=0 WORLD_SIZE=2", "torch 0/2"},
		{"RANK=0 WORLD_SIZE=1", "torch 0/1 at 127.0.0.1:0 id at-127.0.0.1:0"},
		// Pods of an indexed Job of Kubernetes.
		{"JOB_COMPLETION_INDEX=2 GOMOE_SIZE=4 GOMOE_COORDINATOR=train-0.train:29400 GOMOE_JOB=uid", "gomoe 2/4 at train-0.train:29400 id uid"},
		{"JOB_COMPLETION_INDEX=0 WORLD_SIZE=4 MASTER_ADDR=train-0.train MASTER_PORT=29400", "torch 0/4 at train-0.train:29400 id at-train-0.train:29400"},
		{"JOB_COMPLETION_INDEX=2", "none"}, // a Job of anything else
		{"JOB_COMPLETION_INDEX=3 GOMOE_RANK=1 GOMOE_SIZE=2 GOMOE_COORDINATOR=h:7", "gomoe 1/2 at h:7 id at-h:7"}, // started by gomoe launch in a pod
		{"MLX_RANK=1 MLX_HOSTFILE=" + nodes, "mlx 1/3 at 127.0.0.1:32323 id at-127.0.0.1:32323 nodes"},
		{"MLX_RANK=1 MLX_IBV_DEVICES=" + devices + " MLX_JACCL_COORDINATOR=10.0.0.1:32323", "mlx 1/2 at 10.0.0.1:32323 id at-10.0.0.1:32323 devices"},
		{"JACCL_RANK=0 MLX_RANK=9 JACCL_IBV_DEVICES=" + devices + " JACCL_COORDINATOR=10.0.0.1:1", "mlx 0/2 at 10.0.0.1:1 id at-10.0.0.1:1 devices"},
		// JACCL_RING asks for a ring only if RDMA devices are given, too.
		{"MLX_RANK=1 MLX_JACCL_RING=1 MLX_HOSTFILE=" + nodes, "mlx 1/3 at 127.0.0.1:32323 id at-127.0.0.1:32323 nodes"},
		{"MLX_JACCL_RING=1", "none"},
		{"MLX_RANK=1 MLX_WORLD_SIZE=2 GOMOE_COORDINATOR=a:1", "mlx 1/2 at a:1 id at-a:1"},
		{"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=12 PMIX_RANK=2", "ompi 2/4 local 2/4 at 127.0.0.1:PORT id ompi-12"},
		{"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=12", "ompi 2/4 local 0/2 id ompi-12"},
		{"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=12 MASTER_ADDR=a MASTER_PORT=2", "ompi 2/4 local 0/2 at a:2 id ompi-12"},
		{"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "pmi 1/2 local 1/2 at 127.0.0.1:PORT id pmi-child-of-77"},
		{"SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0 SLURM_JOB_ID=5 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[01-02]", "slurm 3/4 at n01:PORT id slurm-5.0"},
		{"SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_STEP_ID=1 SLURM_JOB_ID=5 SLURM_STEP_NUM_NODES=1 SLURM_LOCALID=3", "slurm 3/4 local 3/4 at 127.0.0.1:PORT id slurm-5.1"},
		// The scripts and shells of an allocation are not ranks.
		{"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=5", "none"},
		{"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=5 SLURM_STEP_ID=4294967290", "none"},
		// Slurm also starts the daemons of other launchers.
		{"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=5 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", "ompi 2/4"},
		{"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=5 PMI_RANK=1 PMI_SIZE=2 SLURM_STEP_NODELIST=a,b", "pmi 1/2 at a:PORT id slurm-5.0"},
	} {
		job, err := detect(vars(c.env), 77)
		if err != nil {
			t.Errorf("%s: %v", c.env, err)
			continue
		}
		if got := describe(job); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.env, got, c.want)
		}
	}
}

func describe(j Job) string {
	var b strings.Builder
	if j.InProcess() {
		b.WriteString("none")
	} else {
		fmt.Fprintf(&b, "%s %d/%d", j.convention, j.Rank, j.Size)
	}
	if j.LocalSize > 0 {
		fmt.Fprintf(&b, " local %d/%d", j.LocalRank, j.LocalSize)
	}
	if j.Coordinator != "" {
		at := j.Coordinator
		if port := derivedPort(j.ID); strings.HasSuffix(at, ":"+port) {
			at = strings.TrimSuffix(at, port) + "PORT"
		}
		fmt.Fprintf(&b, " at %s", at)
	}
	if j.ID != "" {
		fmt.Fprintf(&b, " id %s", j.ID)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"transport=" + j.Transport, j.Transport != ""}, {fmt.Sprint("listener=", j.Listener), j.Listener > 0}, {fmt.Sprint("lifeline=", j.Lifeline), j.Lifeline > 0},
		{"nodes", j.Hostfile != ""}, {"devices", j.Devices != ""}} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	return b.String()
}

func TestDetectWrong(t *testing.T) {
	nodes, devices, bad := files(t)
	for _, c := range []struct{ env, want string }{
		{"RANK=1", "RANK=1 without WORLD_SIZE: how many ranks are there?"},
		{"WORLD_SIZE=2", "WORLD_SIZE=2 without RANK: which rank is this?"},
		{"GOMOE_RANK=1", "GOMOE_RANK=1 without GOMOE_SIZE"},
		{"JOB_COMPLETION_INDEX=4 GOMOE_SIZE=4", "JOB_COMPLETION_INDEX=4 of GOMOE_SIZE=4, want 0 to 3"},
		{"JOB_COMPLETION_INDEX=0 GOMOE_SIZE=4 RANK=1 WORLD_SIZE=4", "JOB_COMPLETION_INDEX=0 and RANK=1 contradict each other"},
		{"MLX_RANK=1", "MLX_RANK=1 without MLX_HOSTFILE, MLX_IBV_DEVICES or MLX_WORLD_SIZE"},
		{"MLX_HOSTFILE=" + nodes, "without MLX_RANK: which rank is this?"},
		{"OMPI_COMM_WORLD_RANK=1", "without OMPI_COMM_WORLD_SIZE"},
		{"PMI_SIZE=1", "PMI_SIZE=1 without PMI_RANK"},
		{"RANK=x WORLD_SIZE=2", `RANK="x", want a number`},
		{"RANK=-1 WORLD_SIZE=2", `RANK="-1", want a number`},
		{"RANK=2 WORLD_SIZE=2", "RANK=2 of WORLD_SIZE=2, want 0 to 1"},
		{"RANK=0 WORLD_SIZE=0", "WORLD_SIZE=0, want at least 1"},
		{"RANK=0 WORLD_SIZE=99999999999999999999", "WORLD_SIZE="},
		{"RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "LOCAL_RANK=2 and LOCAL_WORLD_SIZE=2 of WORLD_SIZE=2"},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", "MASTER_ADDR=a without MASTER_PORT"},
		{"RANK=0 WORLD_SIZE=2 MASTER_PORT=3", "MASTER_PORT=3 without MASTER_ADDR"},
		{"RANK=0 WORLD_SIZE=2 MASTER_PORT=x MASTER_ADDR=a", `MASTER_PORT=x: port "x"`},
		{"RANK=0 WORLD_SIZE=2 GOMOE_COORDINATOR=a", "GOMOE_COORDINATOR=a: want host:port"},
		{"RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", "RANK=0 and OMPI_COMM_WORLD_RANK=1 contradict each other"},
		{"GOMOE_RANK=0 GOMOE_SIZE=4 RANK=0 WORLD_SIZE=2", "GOMOE_SIZE=4 and WORLD_SIZE=2 contradict each other"},
		{"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=0 PMI_SIZE=2", "OMPI_COMM_WORLD_RANK=1 and PMI_RANK=0 contradict"},
		{"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=1 and PMIX_RANK=0 contradict"},
		{"MLX_RANK=1 MLX_WORLD_SIZE=2 MLX_HOSTFILE=" + nodes, "ranks in MLX_HOSTFILE=3 (" + nodes + ") and MLX_WORLD_SIZE=2 contradict"},
		{"MLX_RANK=1 MLX_IBV_DEVICES=" + devices + " MLX_HOSTFILE=" + nodes, "ranks in MLX_IBV_DEVICES=2"},
		{"MLX_RANK=1 MLX_HOSTFILE=" + bad, "want a JSON list with an entry per rank"},
		{"MLX_RANK=1 MLX_HOSTFILE=/nowhere/x", "MLX_HOSTFILE: open /nowhere/x"},
		{"MLX_RANK=1 MLX_HOSTFILE=" + devices, `want a list of "address:port"`},
		{"MLX_RANK=1 MLX_JACCL_RING=0 MLX_IBV_DEVICES=" + devices, "MLX_JACCL_RING is set, which asks for JACCL's ring: only its mesh is spoken here; connect all ranks with each other and unset it, or start MLX's ring over TCP with --backend ring"},
		{"JACCL_RANK=1 JACCL_RING=1 JACCL_IBV_DEVICES=" + devices + " RANK=1 WORLD_SIZE=2", "JACCL_RING is set, which asks for JACCL's ring"},
		{"GOMOE_RANK=0 GOMOE_SIZE=2 GOMOE_LISTENER=1", "GOMOE_LISTENER=1, want the number of an inherited file"},
	} {
		job, err := detect(vars(c.env), 77)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "environ: ") {
			t.Errorf("%s: %v, %v, want an error with %q", c.env, job, err, c.want)
		}
	}
}

func TestMeeting(t *testing.T) {
	job, err := detect(vars("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2"), 1)
	require.NoError(t, err)
	_, err = job.Meeting()
	require.ErrorContains(t, err, "rank 2 of 4: nothing says where the ranks meet, and they are on several machines (OMPI_COMM_WORLD_LOCAL_SIZE=2 of OMPI_COMM_WORLD_SIZE=4); set GOMOE_COORDINATOR=host:port")
}

// All ranks of a job find the same address and id, and other jobs find others.
func TestDerived(t *testing.T) {
	ports := map[string]bool{}
	for i := range 20 {
		ports[derivedPort(fmt.Sprint("ompi-", i))] = true
	}
	if len(ports) < 18 {
		t.Errorf("20 jobs have %d ports", len(ports))
	}
}

// What Describe writes is what Detect reads.
func TestDescribe(t *testing.T) {
	want := Job{Rank: 1, Size: 3, LocalRank: 1, LocalSize: 2, Coordinator: "10.0.0.1:99", ID: "id", Secret: "s", Transport: "tcp", Lifeline: 3}
	env := want.Describe(1234)
	got, err := detect(vars(strings.Join(env, " ")), 1)
	require.NoError(t, err)
	if describe(got) != describe(Job{Rank: 1, Size: 3, LocalRank: 1, LocalSize: 2, Coordinator: "10.0.0.1:99", ID: "id", Transport: "tcp", Lifeline: 3, convention: "gomoe"}) || got.Secret != "s" {
		t.Errorf("%v is read as %s", env, describe(got))
	}
	for _, e := range []string{"MASTER_ADDR=10.0.0.1", "MASTER_PORT=1234", "RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"} {
		if !slices.Contains(env, e) {
			t.Errorf("%v lacks %s", env, e)
		}
	}
	if strings.Contains(strings.Join(got.Source, " "), "=s") {
		t.Errorf("the secret is shown: %v", got.Source)
	}
}

// Variables lists every variable that is read, and no other.
func TestVariables(t *testing.T) {
	read := map[string]bool{gomoeSecret: true, gomoeSecretFile: true}
	nodes, devices, _ := files(t)
	for _, job := range []string{
		"GOMOE_RANK=0 GOMOE_SIZE=2", "JOB_COMPLETION_INDEX=0 GOMOE_SIZE=2", "RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=1 MASTER_ADDR=a MASTER_PORT=1", "MLX_RANK=0 MLX_HOSTFILE=" + nodes, "MLX_RANK=0 MLX_IBV_DEVICES=" + devices,
		"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=1 SLURM_STEP_NUM_NODES=1",
		"SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2",
	} {
		get := vars(job)
		getenv := func(name string) string { read[name] = true; return get(name) }
		MPI(getenv)
		_, err := detect(getenv, 1)
		require.NoError(t, err)
	}
	listed := map[string]bool{}
	for _, v := range Variables() {
		if listed[v.Name] || v.Meaning == "" {
			t.Errorf("%s is listed twice or without a meaning", v.Name)
		}
		listed[v.Name] = true
		if !read[v.Name] {
			t.Errorf("%s is listed and not read", v.Name)
		}
	}
	for name := range read {
		if !listed[name] {
			t.Errorf("%s is read and not listed", name)
		}
	}
}

func TestFirstNode(t *testing.T) {
	for list, want := range map[string]string{
		"a": "a", "a,b": "a", "n[01-04]": "n01", "n[3,5]x,m": "n3x", "n[1": "", "n[]": "", "a[1][2]": "", "": "", "a,n[1-2]": "a",
	} {
		if got := firstNode(list); got != want {
			t.Errorf("first of %q is %q, want %q", list, got, want)
		}
	}
}

// Whatever is in the environment, Detect returns a possible job or an error.
func FuzzDetect(f *testing.F) {
	f.Add("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "a")
	f.Add("GOMOE_RANK", "0", "GOMOE_SIZE", "2", "GOMOE_COORDINATOR", "[::1]:7")
	f.Add("SLURM_PROCID", "1", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2, n3, v3 string) {
		m := map[string]string{n1: v1, n2: v2, n3: v3}
		delete(m, "MLX_HOSTFILE") // would open files
		delete(m, "MLX_IBV_DEVICES")
		delete(m, "JACCL_IBV_DEVICES")
		j, err := detect(func(name string) string { return m[name] }, 1)
		if err == nil && !j.InProcess() && (j.Rank < 0 || j.Rank >= j.Size || j.LocalRank < 0 || j.LocalRank > j.LocalSize) {
			t.Errorf("%v is job %+v", m, j)
		}
	})
}
