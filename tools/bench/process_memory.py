"""What a process holds in memory, from /proc."""


def process_memory(field: str, pid: int | str = "self") -> int:
    """Bytes in a `field` of /proc/PID/status; 0 once the process has ended.

    `pid` is the number of the process, by default of this one. VmRSS is all that is resident, RssAnon the same without mapped
    files, VmHWM the peak of VmRSS. `getrusage` would count the process that started this one, too.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as stream:
            return next((int(line.split()[1]) * 1024 for line in stream if line.startswith(f"{field}:")), 0)
    except OSError:
        return 0
