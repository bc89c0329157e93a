import type { DescService } from "@bufbuild/protobuf";

/**
 * Computes what follows from descriptors alone once for a list of services: all servers of a process have the same ones. Keeps the
 * value of the latest list that begins with a service.
 */
export function oncePerServices<T>(
  compute: (services: readonly DescService[]) => T,
): (services: readonly DescService[]) => T {
  const latest = new WeakMap<DescService, { readonly services: readonly DescService[]; readonly value: T }>();
  return (services) => {
    const [first] = services;
    if (first === undefined) return compute(services);
    const known = latest.get(first);
    const isSame = (each: DescService, index: number): boolean => each === services[index];
    if (known?.services.length === services.length && known.services.every(isSame)) return known.value;
    const value = compute(services);
    latest.set(first, { services: [...services], value });
    return value;
  };
}
