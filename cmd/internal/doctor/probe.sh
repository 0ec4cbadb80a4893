# What a machine says of itself, one line each. The arguments are addresses to reach.
# It changes nothing, and runs on Linux and macOS with what they have.
echo "clock $(date +%s.%N 2>/dev/null | sed 's/\.N$//;s/\.%N$//')"
echo "name $(hostname)"
echo "os $(uname -s)"
echo "arch $(uname -m)"
echo "cpus $(getconf _NPROCESSORS_ONLN 2>/dev/null)"
if [ -r /proc/sys/kernel/random/boot_id ]; then
	echo "id $(cat /proc/sys/kernel/random/boot_id)"
else
	echo "id $(sysctl -n kern.bootsessionuuid 2>/dev/null)"
fi
{ ip -o addr 2>/dev/null || ifconfig -a 2>/dev/null; } | tr '\t/%' '   ' | awk '{for (i = 1; i < NF; i++) if ($i == "inet" || $i == "inet6") print "address " $(i + 1)}'
for l in librdma.dylib libibverbs.so.1 libmpi.so.40 libmpi.so.12 libmpich.so.12; do
	for d in /usr/lib /usr/local/lib /opt/homebrew/lib /usr/lib64 /usr/lib/*-linux-gnu /usr/lib/*-linux-gnu/openmpi/lib; do
		[ -e "$d/$l" ] && echo "library $l $d/$l" && break
	done
done
{ ibv_devices 2>/dev/null | awk 'NR > 2 {print "device " $1}'; }
if [ "$(uname -s)" = Darwin ]; then
	echo "version $(sw_vers -productVersion 2>/dev/null)"
	echo "bridge $(ifconfig bridge0 2>/dev/null | head -n 1)"
	ibv_devices 2>/dev/null | awk 'NR > 2 {print $1}' | while read -r d; do
		echo "port $d $(ifconfig "${d#rdma_}" 2>/dev/null | awk '$1 == "inet" {print $2; exit}')"
	done
fi
for f in /dev/infiniband/uverbs*; do
	[ -e "$f" ] && { [ -r "$f" ] && [ -w "$f" ]; } || { [ -e "$f" ] && echo "refused $f"; }
done
echo "locked $(ulimit -l 2>/dev/null)"
echo "files $(ulimit -n 2>/dev/null)"
[ -d /dev/shm ] && echo "shared $(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')"
command -v ping >/dev/null || set --
for a in "$@"; do
	case $(uname -s) in
	Darwin) w="-t 2" ;;
	*) w="-W 2" ;;
	esac
	if ping -c 1 $w "$a" >/dev/null 2>&1 || ping6 -c 1 "$a" >/dev/null 2>&1; then
		echo "reach $a yes"
	else
		echo "reach $a no"
	fi
done
echo end
