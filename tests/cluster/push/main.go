// Command push keeps the agents of all nodes equal to the API server: push KUBECONFIG TARGET...
//
// It uses client-go's informers and svcmap's Go client. push.sh builds it in a source tree of Kubernetes.
package main

import (
	"context"
	"log"
	"os"

	svcmap "github.com/you/svcmap/api/clients/go"
	"github.com/you/svcmap/api/clients/go/svcmapv1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// convert returns the message for a Service, EndpointSlice or Node.
func convert(from any) svcmap.Object {
	if deleted, ok := from.(cache.DeletedFinalStateUnknown); ok {
		from = deleted.Obj
	}
	var object svcmap.Object
	var err error
	switch from := from.(type) {
	case *corev1.Service:
		object = &svcmapv1.Service{}
		err = svcmap.FromKubernetes(from, object)
	case *discoveryv1.EndpointSlice:
		object = &svcmapv1.EndpointSlice{}
		err = svcmap.FromKubernetes(from, object)
	case *corev1.Node:
		object = &svcmapv1.Node{}
		err = svcmap.FromKubernetes(from, object)
	}
	if err != nil {
		log.Fatal(err)
	}
	return object
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	services := factory.Core().V1().Services()
	slices := factory.Discovery().V1().EndpointSlices()
	nodes := factory.Core().V1().Nodes()
	var agents []*svcmap.Agent
	for _, target := range os.Args[2:] {
		agent, err := svcmap.Dial(target, svcmap.Controller{Name: "push",
			OnResult: func(r *svcmap.Result) { log.Print(r.GetMessage()) }, OnError: func(err error) { log.Print(err) }})
		if err != nil {
			log.Fatal(err)
		}
		agents = append(agents, agent)
	}
	synced := make(chan struct{}) // Closed after Set has passed the first lists to the agents.
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), slices.Informer(), nodes.Informer()} {
		store := informer.GetStore()
		update := func(from any) {
			<-synced
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(from)
			if err != nil {
				log.Fatal(err)
			}
			// The event can be older than the object that Set has sent.
			latest, exists, err := store.GetByKey(key)
			if err != nil {
				log.Fatal(err)
			}
			for _, agent := range agents {
				if exists {
					agent.Apply(convert(latest))
				} else {
					agent.Remove(convert(from))
				}
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: update, UpdateFunc: func(_, to any) { update(to) }, DeleteFunc: update})
		if err != nil {
			log.Fatal(err)
		}
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())

	var objects []svcmap.Object
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), slices.Informer(), nodes.Informer()} {
		for _, from := range informer.GetStore().List() {
			objects = append(objects, convert(from))
		}
	}
	for _, agent := range agents {
		agent.Set(objects)
	}
	close(synced)
	for _, agent := range agents {
		<-agent.Done()
		log.Fatal(agent.Err())
	}
}
