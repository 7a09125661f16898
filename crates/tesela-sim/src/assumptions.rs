//! Where no source tells what a driver does: what the simulated one does. This is the one place where such choices stand.
//!
//! What sources do tell comes first, so that nobody takes it for a choice.
//!
//! # Known
//!
//! | what | how | source |
//! | --- | --- | --- |
//! | ids of GPU instances | the whole GPU is 0, halves are 1 and 2, quarters 3 to 6, eighths 7 to 14 | NVIDIA/open-gpu-kernel-modules:src/nvidia/src/kernel/gpu/mig_mgr/arch/ampere/kmigmgr_ga100.c |
//! | which of them | by place: 7 + start for eighths, 3 + start / 2 for quarters, 1 + start / 4 for halves | listings of `nvidia-smi mig -lgi` of A100, H100, GH200 (MIG User Guide and public reports) |
//! | where an instance goes when nobody says | where most (profile, start) pairs stay open, the lowest start among equals | fits every listing found: `19,14,5`, `19,19,14,9`, `9,19,14,19`, `14,19,…`, `19 × 7`, `14,14,14,20`, `9,14`, `9,9`, `19,9` |
//! | return codes of refused calls | as nvml.h lists them for each function | NVIDIA/go-nvml:gen/nvml/nvml.h, chapter "Multi Instance GPU Management" |
//! | turning MIG on or off while the GPU is used | Ampere: success, and the mode waits; Hopper: refused with `InUse` | `nvidia-smi -mig` says "pending … state" there and "Unable to disable MIG Mode" here (public reports: A100 nodes; GH200) |
//! | profiles with MIG off | told by drivers after 535 only | NVIDIA/mig-parted:cmd/nvidia-mig-manager/main.go |
//! | order of MIG devices | by GPU instance, then compute instance | `nvidia-smi` listings in the MIG User Guide |
//! | ids of compute instances | from 0 in each GPU instance; profile id and enum value are one number | `nvidia-smi mig -lci`, `-lcip` in the MIG User Guide |
//! | utilisation with MIG on | not told | MIG User Guide, "GPU Utilization Metrics" |
//! | instances after a reset or reboot | gone; MIG mode stays on Ampere alone | MIG User Guide |
//!
//! One listing of the MIG User Guide (two `3g.20gb` with 1 at 4:4 and 2 at 0:4) contradicts four others, and one A100-80GB
//! (public report, driver 570) counts its seven eighths 7, 8, 9, 11 to 14: boards with other slices switched off number
//! otherwise. The simulation has the common case.
//!
//! # Assumed
//!
//! | what | the choice |
//! | --- | --- |
//! | placements of compute instances | starts are multiples of the size rounded up to a power of two; that gives as many placements as the profile table says fit, and room for 1c, 2c and 3c in one 7g, which the MIG User Guide shows |
//! | where a compute instance goes | as a GPU instance: where most stays open, the lowest among equals |
//! | its id | the lowest that is free |
//! | memory of a profile that the table lacks | its share of the GPU less 2 %, in steps of 128 MiB |
//! | memory of a GPU that the table lacks | the total that its profile names come from |
//! | multiprocessors that the table lacks | those of the GPU over its slices, rounded down; 16 a slice where nothing is known |
//! | engines that the table lacks | copy, decoder and JPEG engines: one a slice; encoders none; optical flow on the whole GPU alone. They are told, and bind nothing |
//! | a placement that the profile does not have | `InvalidArgument` |
//! | a reset of an Ampere inside `nvmlDeviceSetMigMode` | the minor number stays |
//! | `nvmlDeviceSetMigMode` on an Ampere that is idle but held open by a monitor | waits, with `InUse` |
//! | a mode that waits on Hopper | there is none |
//! | a GPU that needs a reset | tells what it is and does; every change answers `ResetRequired` |
//! | a lost GPU | answers `GpuIsLost` to everything, draws nothing, logs XID 79; a reboot brings it back |
//! | a reset | clears counters since the load of the driver, keeps those of the GPU's life |
//! | order of refusals | no such GPU, then a fault, then lost, then what the call itself finds; rights come before all |
//! | memory that the driver keeps | one part in 128 of the GPU; nothing of an instance |
//! | memory of a MIG device | that of its GPU instance, shared by all in it |
//! | power | idle, and what is between idle and the limit by the share of the multiprocessors at work |
//! | temperature | of the chip 25 °C and 50 °C more at the limit, of the memory 2 °C less and 10 °C more; at once |
//! | memory utilisation | half of the multiprocessors' work |
//! | clocks | the highest while anything runs, else idle |
//! | watts and megahertz | [`crate::figures`] |
//! | encoders and decoders | idle |
//! | a process nobody told more of | idle; it would fill as much of the GPU as the measured workload |
//! | clients of MPS beside other processes | take turns with them as one |
//! | the events kept for who has not asked | the last 256; a change of instances is an event of its own |
//! | subsystem id | NVIDIA's vendor id alone |
//!
//! # How long calls take
//!
//! Only where the machine says `latency: true`. GPU and compute instance together: 0.16 s to make and 0.11 s to remove,
//! within what FAR measured on an A30 (0.13 to 0.16 s, 0.10 to 0.11 s; artecs-group/FAR_MIG_scheduler:README.md). Assumed: a
//! quarter of it for the compute instance; MIG mode 2 s; a reset 4 s; everything else 20 µs.
