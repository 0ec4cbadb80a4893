package rdma

func rankMain(role string) int { return 1 }
