"""Walks an emulated node with NVIDIA's own Python client and prints what it saw as JSON.

usage: walk.py names            the functions that the client binds, one a line
       walk.py symbols FILE     those of the names in FILE that the library lacks
       walk.py walk             GPUs, MIG devices, profiles, processes
       walk.py change GPU       makes and removes an instance on a GPU (an index)
       walk.py event COMMAND    waits for an XID while the command runs, and prints its number
"""

import ctypes
import inspect
import json
import re
import subprocess
import sys

import pynvml as nvml


def names():
    """Each function that the client looks up by name in the library."""
    found = re.findall(r"_nvmlGetFunctionPointer\(\s*[\"'](\w+)[\"']", inspect.getsource(nvml))
    return sorted(set(found))


def symbols(file):
    library = ctypes.CDLL("libnvidia-ml.so.1")
    with open(file, encoding="utf-8") as lines:
        wanted = [line.split("\t")[0] for line in lines if not line.startswith("#")]
    return [name for name in wanted if not hasattr(library, name)]


def known(value):
    """The client writes None, or the largest number, where the driver does not tell."""
    return None if value is None or value in (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF) else value


def processes(handle):
    lists = (
        ("compute", nvml.nvmlDeviceGetComputeRunningProcesses),
        ("graphics", nvml.nvmlDeviceGetGraphicsRunningProcesses),
        ("mps", nvml.nvmlDeviceGetMPSComputeRunningProcesses),
    )
    return [
        {
            "pid": process.pid,
            "kind": kind,
            "memory_mib": process.usedGpuMemory >> 20,
            "gpu_instance": known(process.gpuInstanceId),
            "compute_instance": known(process.computeInstanceId),
        }
        for kind, ask in lists
        for process in ask(handle)
    ]


def profiles(handle):
    found = []
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=2)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue
        name = info.name.decode() if isinstance(info.name, bytes) else info.name
        found.append({"id": info.id, "name": name.removeprefix("MIG "), "most": info.instanceCount})
    return sorted(found, key=lambda profile: profile["id"])


def device(handle):
    return {
        "index": nvml.nvmlDeviceGetIndex(handle),
        "uuid": nvml.nvmlDeviceGetUUID(handle),
        "name": nvml.nvmlDeviceGetName(handle),
        "memory_mib": nvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
        "gpu_instance": nvml.nvmlDeviceGetGpuInstanceId(handle),
        "compute_instance": nvml.nvmlDeviceGetComputeInstanceId(handle),
        "slices": nvml.nvmlDeviceGetAttributes(handle).gpuInstanceSliceCount,
        "processes": processes(handle),
    }


def devices(handle):
    found = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found.append(device(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)))
        except nvml.NVMLError_NotFound:
            continue
    return found


def gpu(handle):
    pci = nvml.nvmlDeviceGetPciInfo(handle)
    uuid = nvml.nvmlDeviceGetUUID(handle)
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByUUID(uuid)) == uuid
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByPciBusId(pci.busId)) == uuid
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleBySerial(nvml.nvmlDeviceGetSerial(handle))) == uuid
    return {
        "index": nvml.nvmlDeviceGetIndex(handle),
        "uuid": uuid,
        "name": nvml.nvmlDeviceGetName(handle),
        "pci": pci.busId,
        "minor": nvml.nvmlDeviceGetMinorNumber(handle),
        "memory_mib": nvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
        "mig": bool(nvml.nvmlDeviceGetMigMode(handle)[0]),
        "profiles": profiles(handle),
        "devices": devices(handle),
        "processes": processes(handle),
    }


def walk():
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return {"driver": nvml.nvmlSystemGetDriverVersion(), "gpus": [gpu(handle) for handle in handles]}


def change(index):
    """One life of a MIG device, as a table of what was answered."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    nvml.nvmlDeviceSetMigMode(handle, nvml.NVML_DEVICE_MIG_ENABLE)
    smallest = max(profiles(handle), key=lambda profile: profile["most"])
    before = nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, smallest["id"])
    instance = nvml.nvmlDeviceCreateGpuInstance(handle, smallest["id"])
    part = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    made = devices(handle)
    told = {
        "profile": smallest["name"],
        "taken": before - nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, smallest["id"]),
        "made": [device["name"] for device in made],
    }
    try:
        nvml.nvmlGpuInstanceDestroy(instance)
        told["destroy_with_part"] = "done"
    except nvml.NVMLError as error:
        told["destroy_with_part"] = str(error)
    nvml.nvmlComputeInstanceDestroy(part)
    nvml.nvmlGpuInstanceDestroy(instance)
    told["left"] = len(devices(handle))
    nvml.nvmlDeviceSetMigMode(handle, nvml.NVML_DEVICE_MIG_DISABLE)
    told["mig"] = bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    return told


def event(command):
    events = nvml.nvmlEventSetCreate()
    for index in range(nvml.nvmlDeviceGetCount()):
        nvml.nvmlDeviceRegisterEvents(
            nvml.nvmlDeviceGetHandleByIndex(index), nvml.nvmlEventTypeXidCriticalError, events
        )
    with subprocess.Popen(command) as running:
        data = nvml.nvmlEventSetWait_v2(events, 60000)
        assert running.wait() == 0
    told = {"xid": data.eventData, "index": nvml.nvmlDeviceGetIndex(data.device)}
    nvml.nvmlEventSetFree(events)
    return told


def main():
    verb, *words = sys.argv[1:]
    if verb == "names":
        print("\n".join(names()))
        return
    if verb == "symbols":
        print("\n".join(symbols(*words)))
        return
    nvml.nvmlInit()
    answer = {"walk": walk, "change": lambda: change(int(words[0])), "event": lambda: event(words)}[verb]()
    nvml.nvmlShutdown()
    print(json.dumps(answer))


main()
