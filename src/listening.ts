import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';

interface Place {
  readonly host: string;
  readonly port: number;
}

/** Advice for an error of `listen`, by its code. */
const LISTEN_CURES: Readonly<Record<string, (host: string, port: number) => string>> = {
  EADDRINUSE: (_, port) => `another program listens on port ${port}; stop it, or set SLUICE_PORT to a free port`,
  EADDRNOTAVAIL: (host) =>
    `this machine does not have the address ${host}; set SLUICE_HOST to one that it has, or 0.0.0.0 for all`,
  EAFNOSUPPORT: (host) => `this machine cannot use addresses like ${host}; set SLUICE_HOST to another kind of address`,
  EACCES: (_, port) =>
    `this account may not use port ${port}; set SLUICE_PORT to 1024 or more, and put a proxy in front`,
  ENOTFOUND: (host) => `the host name ${host} has no address; set SLUICE_HOST to an address of this machine`,
  EAI_AGAIN: (host) => `the address of ${host} cannot be looked up now; set SLUICE_HOST to an address of this machine`,
};

/** The service cannot listen where the settings say; the message names the change to make. */
export class ListenError extends Error {
  /** Converts an error of `listen`, or yields it unchanged if there is no advice for it. */
  static from(error: unknown, { host, port }: Place): unknown {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const cure = LISTEN_CURES[code];
    if (cure === undefined) return error;
    return new ListenError(`Sluice cannot listen on ${host}, port ${port}: ${cure(host, port)}`, { cause: error });
  }
  constructor(message: string, options: ErrorOptions) {
    super(message, options);
    this.name = 'ListenError';
  }
}

/**
 * Listens at a place. If it is all addresses and the machine has no IPv6, listens on all IPv4 addresses. Rejects with
 * `ListenError` if the address or the port is not available.
 */
export async function listenAt(place: Place, listenOn: (place: Place) => Promise<unknown>): Promise<void> {
  try {
    await listenOn(place);
  } catch (error) {
    const { code } = error as { readonly code?: string };
    if (place.host === '::' && /^E(?:AFNOSUPPORT|ADDRNOTAVAIL)$/.test(code ?? '')) {
      return listenAt({ ...place, host: '0.0.0.0' }, listenOn);
    }
    throw ListenError.from(error, place);
  }
}

/** Yields the address as a URL. */
export async function listen(fastify: FastifyInstance, place: Place): Promise<string> {
  await listenAt(place, (at) => fastify.listen(at));
  return urlOf(fastify.server.address() as AddressInfo);
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}
