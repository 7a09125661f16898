// Walks an emulated node with NVIDIA's own Go clients and prints what it saw as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type migDevice struct {
	Index           int    `json:"index"`
	UUID            string `json:"uuid"`
	Profile         string `json:"profile"`
	MemoryMiB       uint64 `json:"memory_mib"`
	GpuInstance     int    `json:"gpu_instance"`
	ComputeInstance int    `json:"compute_instance"`
}

type gpu struct {
	Index      int         `json:"index"`
	UUID       string      `json:"uuid"`
	Name       string      `json:"name"`
	PCI        string      `json:"pci"`
	Minor      int         `json:"minor"`
	MemoryMiB  uint64      `json:"memory_mib"`
	Capable    bool        `json:"capable"`
	Mig        bool        `json:"mig"`
	Arch       string      `json:"architecture"`
	Brand      string      `json:"brand"`
	Capability string      `json:"capability"`
	Coherent   bool        `json:"coherent"`
	Fabric     bool        `json:"fabric"`
	Profiles   []string    `json:"profiles"`
	Devices    []migDevice `json:"devices"`
	Processes  []uint32    `json:"processes"`
	NvLinks    int         `json:"nvlinks"`
}

type node struct {
	Driver string `json:"driver"`
	Cuda   int    `json:"cuda"`
	Gpus   []gpu  `json:"gpus"`
}

// check ends the program with what was refused.
func check(what string, problem any) {
	switch answer := problem.(type) {
	case nil:
		return
	case nvml.Return:
		if answer == nvml.SUCCESS {
			return
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, problem)
	os.Exit(1)
}

func migDevices(parent device.Device) []migDevice {
	all, err := parent.GetMigDevices()
	check("MIG devices", err)
	found := []migDevice{}
	for _, one := range all {
		index, ret := one.GetIndex()
		check("index of a MIG device", ret)
		uuid, ret := one.GetUUID()
		check("UUID of a MIG device", ret)
		profile, err := one.GetProfile()
		check("profile of a MIG device", err)
		attributes, ret := one.GetAttributes()
		check("attributes of a MIG device", ret)
		gi, ret := one.GetGpuInstanceId()
		check("GPU instance of a MIG device", ret)
		ci, ret := one.GetComputeInstanceId()
		check("compute instance of a MIG device", ret)
		found = append(found, migDevice{index, uuid, profile.String(), attributes.MemorySizeMB, gi, ci})
	}
	return found
}

func walk(index int, one device.Device) gpu {
	uuid, ret := one.GetUUID()
	check("UUID", ret)
	name, ret := one.GetName()
	check("name", ret)
	pci, err := one.GetPCIBusID()
	check("PCI address", err)
	minor, ret := one.GetMinorNumber()
	check("minor number", ret)
	memory, ret := one.GetMemoryInfo()
	check("memory", ret)
	capable, err := one.IsMigCapable()
	check("MIG capability", err)
	enabled, err := one.IsMigEnabled()
	check("MIG mode", err)
	arch, err := one.GetArchitectureAsString()
	check("architecture", err)
	brand, err := one.GetBrandAsString()
	check("brand", err)
	capability, err := one.GetCudaComputeCapabilityAsString()
	check("compute capability", err)
	coherent, err := one.IsCoherent()
	check("coherence", err)
	fabric, err := one.IsFabricAttached()
	check("fabric", err)
	listed, err := one.GetMigProfiles()
	check("profiles", err)
	profiles := []string{}
	for _, profile := range listed {
		profiles = append(profiles, profile.String())
	}
	running, ret := one.GetComputeRunningProcesses()
	check("processes", ret)
	pids := []uint32{}
	for _, process := range running {
		pids = append(pids, process.Pid)
	}
	// As NVIDIA's allocator looks for links.
	links := 0
	for link := 0; link < nvml.NVLINK_MAX_LINKS; link++ {
		state, ret := one.GetNvLinkState(link)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		check("state of a link", ret)
		if state == nvml.FEATURE_ENABLED {
			links++
		}
	}
	return gpu{index, uuid, name, pci, minor, memory.Total >> 20, capable, enabled, arch, brand, capability,
		coherent, fabric, profiles, migDevices(one), pids, links}
}

func main() {
	library := nvml.New()
	check("init", library.Init())
	devices := device.New(library)
	driver, ret := library.SystemGetDriverVersion()
	check("driver version", ret)
	cuda, ret := library.SystemGetCudaDriverVersion()
	check("CUDA version", ret)
	found := node{Driver: driver, Cuda: cuda, Gpus: []gpu{}}
	check("devices", devices.VisitDevices(func(index int, one device.Device) error {
		found.Gpus = append(found.Gpus, walk(index, one))
		return nil
	}))
	check("shutdown", library.Shutdown())
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		check("output", err)
	}
}
