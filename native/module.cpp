// The extension module: kernels by name, instruction set, threads.
#include "bind.hpp"

NB_MODULE(_native, m) {
  using namespace tinsmith;
  // Weights that a thread holds when its process ends are freed with it; a user would read of a fault in the binding.
  nb::set_leak_warnings(false);
  m.doc() = "Canonical arithmetic: kernels whose bits depend on their operands only.";
  m.def("supported_isas", &supported_isas);
  m.def("use_isa", &use_isa, nb::arg("name"));
  m.def("isa", [] { return std::string(kernels().name); });
  nb::class_<Tape>(m, "Tape")
      .def(nb::init<>())
      .def("begin", &Tape::begin)
      .def("end", &Tape::end)
      .def("replay", &Tape::replay, NoGil());
  m.def("set_num_threads", &set_num_threads, nb::arg("n"));
  m.def("num_threads", &num_threads);
  bind_held(m);
  bind_products(m);
  bind_rows(m);
  bind_attention(m);
  bind_mixture(m);
  bind_experts(m);
  bind_sampling(m);
  bind_state(m);
  bind_graph(m);
  bind_world(m);
}
