# Targets of the development cluster; included by the Makefile of the repository's root.

CLUSTER ?= python3 -m tests.cluster

.PHONY: cluster-up cluster-with-images cluster-down cluster-status cluster-build test-cluster-dirty

cluster-up: ## Have a Kubernetes cluster with KubeRay and Prometheus (nothing to do where it is up)
	$(CLUSTER) up

cluster-with-images: ## The same, with this project's images in it (through PPOJOB_REGISTRY where KUBECONFIG leads elsewhere)
	$(CLUSTER) up --images

cluster-down: ## Remove it; caches and images stay
	$(CLUSTER) down

cluster-status: ## Show processes, node, addons, images, disk
	$(CLUSTER) status

cluster-build: ## Only build what the cluster needs (about 20 minutes, once)
	$(CLUSTER) build

test-cluster-dirty: ## Check that the node starts from any dirty state and leaves nothing behind
	$(CLUSTER).check_dirty
