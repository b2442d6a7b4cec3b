import type { Credentials } from '../config/credentials.ts';
import type { ServiceClock } from '../model/clock.ts';
import { serially } from '../model/serially.ts';
import type { Store } from '../store/store.ts';
import { type Actor, type CredentialsInForce, credentialsInForce } from './credentials.ts';

/** Current access to the dashboard: credentials, and the admitted actors that are watched. */
export interface Logins {
  readonly credentials: CredentialsInForce;
  /** Stores which credentials are in force, so that a removed one does not bring its sessions back with it. */
  note(): Promise<void>;
  /** Whether an admitted actor can continue. */
  holds(actor: Actor): Promise<boolean>;
  /**
   * Calls `leave` as soon as the actor is ended here, or what admits it changes. Yields the function that stops that.
   * Only `holds` notices what other processes end.
   */
  whenOver(actor: Actor, leave: () => void): () => void;
  /** Makes the watched actors leave that are of the session. */
  endSession(id: string): void;
}

export function createLogins(
  given: Credentials,
  services: { readonly store: Pick<Store, 'noteCredentials'>; readonly clock: Pick<ServiceClock, 'ledger'> },
): Logins {
  const { store, clock } = services;
  const credentials = credentialsInForce(given);
  // One after the other: a credential that is removed and comes back at once counts as removed.
  const notes = serially();
  /** The watching actors, each with the state that admitted it. */
  const watchers = new Set<{ actor: Actor; standing: unknown; leave: () => void }>();
  /** The state that admits an actor: another value once it changes, undefined once it is gone. */
  const standingOf = ({ credential, standing }: Actor): unknown => {
    if (standing !== undefined) return standing();
    return credential === undefined ? undefined : credentials.holder(credential);
  };
  credentials.onReplaced(() => {
    for (const { actor, standing, leave } of [...watchers]) if (standingOf(actor) !== standing) leave();
  });
  return {
    credentials,
    note() {
      const listed = credentials.list();
      return notes.run(() => store.noteCredentials({ credentials: listed, now: clock.ledger() }));
    },
    async holds(actor) {
      return standingOf(actor) !== undefined && (await actor.isEnded?.()) !== true;
    },
    whenOver(actor, leave) {
      const watcher = { actor, standing: standingOf(actor), leave };
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    endSession(id) {
      for (const { actor, leave } of [...watchers]) if (actor.session?.id === id) leave();
    },
  };
}
