// Package main is the least device plugin: a peer to measure and to swap with, and a way to look at a kubelet's sockets.
//
//	device-plugin serve FOLDER RESOURCE ID… offers devices through a kubelet's folder device-plugins until it is ended
//	device-plugin list SOCKET               prints what PodResources says of pods, as JSON
//	device-plugin allocatable SOCKET        prints what PodResources says of devices, as JSON
//
// It gives a container its devices in NVIDIA_VISIBLE_DEVICES, as NVIDIA's plugin does. With CDI=vendor/class in its
// environment it also names them as CDI devices of that kind.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	resources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch {
	case len(words) > 3 && words[0] == "serve":
		server := &server{folder: words[1], resource: words[2], ids: words[3:], cdi: os.Getenv("CDI")}
		return server.serve(ctx)
	case len(words) == 2 && words[0] == "list":
		return ask(ctx, words[1], func(client resources.PodResourcesListerClient) (any, error) {
			return client.List(ctx, &resources.ListPodResourcesRequest{})
		})
	case len(words) == 2 && words[0] == "allocatable":
		return ask(ctx, words[1], func(client resources.PodResourcesListerClient) (any, error) {
			return client.GetAllocatableResources(ctx, &resources.AllocatableResourcesRequest{})
		})
	}
	return fmt.Errorf("usage: device-plugin serve FOLDER RESOURCE ID… | list SOCKET | allocatable SOCKET")
}

func connect(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func ask(ctx context.Context, socket string, call func(resources.PodResourcesListerClient) (any, error)) error {
	connection, err := connect(socket)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := call(resources.NewPodResourcesListerClient(connection))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

type server struct {
	plugin.UnimplementedDevicePluginServer
	folder   string
	resource string
	ids      []string
	cdi      string
	ended    <-chan struct{}
}

// serve registers again whenever the kubelet makes its socket anew, for then it has emptied the folder.
func (s *server) serve(ctx context.Context) error {
	s.ended = ctx.Done()
	kubelet := filepath.Join(s.folder, "kubelet.sock")
	for {
		seen, err := wait(ctx, kubelet, nil)
		if err != nil {
			return nil
		}
		name := "testbed-" + strings.NewReplacer("/", "-", ".", "-").Replace(s.resource) + ".sock"
		socket := filepath.Join(s.folder, name)
		_ = os.Remove(socket)
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		plugin.RegisterDevicePluginServer(server, s)
		go server.Serve(listener)
		if err := s.register(ctx, kubelet, name); err != nil {
			fmt.Fprintln(os.Stderr, "register:", err)
		} else {
			fmt.Println("registered", s.resource)
		}
		_, err = wait(ctx, kubelet, seen)
		server.Stop()
		if err != nil {
			return nil
		}
	}
}

// wait returns once the file is another one than before.
func wait(ctx context.Context, path string, before os.FileInfo) (os.FileInfo, error) {
	for {
		if now, err := os.Stat(path); err == nil && (before == nil || !os.SameFile(before, now)) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *server) register(ctx context.Context, kubelet, name string) error {
	connection, err := connect(kubelet)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = plugin.NewRegistrationClient(connection).Register(ctx, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: name, ResourceName: s.resource,
	})
	return err
}

func (s *server) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (s *server) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	list := &plugin.ListAndWatchResponse{}
	for _, id := range s.ids {
		list.Devices = append(list.Devices, &plugin.Device{ID: id, Health: plugin.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-stream.Context().Done():
	}
	return nil
}

func (s *server) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		given := &plugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		}
		for _, id := range container.DevicesIds {
			if s.cdi != "" {
				given.CdiDevices = append(given.CdiDevices, &plugin.CDIDevice{Name: s.cdi + "=" + id})
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}
