module tesela.dev/testbed/container

go 1.26.0
