/** The properties of all parts of a list, as one type. */
export type Joined<Parts> = Parts extends readonly [infer First, ...infer Others] ? First & Joined<Others> : unknown;

/** The kernel's rows and those of features, by name. */
export function joined<Kernel extends object, const Parts extends readonly object[]>(kernel: Kernel, parts: Parts) {
  return Object.assign({}, kernel, ...parts) as Kernel & Joined<Parts>;
}
