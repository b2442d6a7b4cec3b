import { useEffect, useState } from 'preact/hooks';

/** A value that several components show. */
interface State<Value> {
  get(): Value;
  set(next: Value): void;
  subscribe(listener: (value: Value) => void): () => void;
}

export function createState<Value>(initial: Value): State<Value> {
  let value = initial;
  const listeners = new Set<(value: Value) => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener(next);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useShared<Value>(state: State<Value>): Value {
  const [value, setValue] = useState(() => state.get());
  useEffect(() => {
    // It may have changed since the first drawing.
    setValue(() => state.get());
    return state.subscribe((next) => setValue(() => next));
  }, [state]);
  return value;
}

/** Whether a media query holds; follows changes of the window. */
export function useMedia(query: string): boolean {
  const [isTrue, setTrue] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const follow = () => setTrue(list.matches);
    follow();
    list.addEventListener('change', follow);
    return () => list.removeEventListener('change', follow);
  }, [query]);
  return isTrue;
}
