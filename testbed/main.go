// Package main is a whole Kubernetes in one program, for tests: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubelet and kubectl, chosen by the name it is called by or else by its first argument. `key FILE`
// writes a key for the tokens of service accounts.
//
// Each component is upstream's own command, linked and not changed. One program instead of six because they share
// nearly all of their code: it is a third of the size and of the time to build.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name, words := filepath.Base(os.Args[0]), os.Args[1:]
	if !known(name) {
		if len(words) == 0 || !known(words[0]) {
			fmt.Fprintf(os.Stderr, "usage: %s COMPONENT [ARGUMENTS]\ncomponents: %v\n", name, components)
			os.Exit(2)
		}
		name, words = words[0], words[1:]
	}
	// cobra and etcd both read os.Args.
	os.Args = append([]string{name}, words...)
	os.Exit(run(name))
}

var components = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "key",
}

func known(name string) bool {
	for _, component := range components {
		if name == component {
			return true
		}
	}
	return false
}

func run(name string) int {
	var command *cobra.Command
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "key":
		if err := writeKey(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "kubectl":
		if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
			// Prints the error and ends with the code that kubectl gives it.
			util.CheckErr(err)
		}
		return 0
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kubelet":
		command = kubelet.NewKubeletCommand(genericapiserver.SetupSignalContext())
	}
	return cli.Run(command)
}

func writeKey() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: key FILE")
	}
	pem, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return keyutil.WriteKey(os.Args[1], pem)
}
