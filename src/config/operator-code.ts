import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Whose code is running, through every promise, timer and callback that it starts: so that an error that nothing catches
 * can be told from one of ours. Costs nothing where the operator brings no code.
 */
const owners = new AsyncLocalStorage<string>();

/** Runs code of the operator's under the name that it is told by. */
export function runAs<Result>(owner: string, run: () => Result): Result {
  return owners.run(owner, run);
}

/** Asked in a handler of `uncaughtException` or `unhandledRejection`: whose code it was; undefined for our own. */
export function ownerOfStray(): string | undefined {
  return owners.getStore();
}

/** The object with some of its methods run under the owner's name; everything else is the object's own. */
export function owned<Owned extends object>(object: Owned, owner: string, methods: readonly (keyof Owned)[]): Owned {
  return new Proxy(object, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function' || !methods.includes(name as keyof Owned)) return value;
      return (...given: unknown[]) => runAs(owner, () => Reflect.apply(value, target, given));
    },
  });
}
