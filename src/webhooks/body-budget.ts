/** Bytes that all bodies in flight may hold together. */
export interface BodyBudget {
  /** Takes bytes until the function it yields is called; undefined where they are not left. */
  reserve(bytes: number): (() => void) | undefined;
}

export function bodyBudget(maxBytes: number): BodyBudget {
  let taken = 0;
  return {
    reserve(bytes) {
      if (taken + bytes > maxBytes) return undefined;
      taken += bytes;
      let isHeld = true;
      return () => {
        if (isHeld) taken -= bytes;
        isHeld = false;
      };
    },
  };
}
