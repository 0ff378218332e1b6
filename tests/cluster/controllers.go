package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

const (
	resync  = 10 * time.Minute
	workers = 4
	// New kinds are seen this fast; a cluster takes 30 s.
	discoveryPeriod = 2 * time.Second
)

// startControllers runs the controllers that tests see the effect of: without them namespaces
// stay Terminating, and what belongs to a deleted owner stays.
func startControllers(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(client, resync)
	sharedMetadata := metadatainformer.NewSharedInformerFactory(metadataClient, resync)
	informersStarted := make(chan struct{})

	namespaces := namespace.NewNamespaceController(
		ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources,
		shared.Core().V1().Namespaces(), resync, corev1.FinalizerKubernetes,
	)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	garbage, err := garbagecollector.NewGarbageCollector(
		ctx, client, metadataClient, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(shared, sharedMetadata), informersStarted,
	)
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	sharedMetadata.Start(ctx.Done())
	close(informersStarted)
	go namespaces.Run(ctx, workers)
	go garbage.Run(ctx, workers, discoveryPeriod)
	go garbage.Sync(ctx, client.Discovery(), discoveryPeriod)
	return nil
}
