import { hostname } from 'node:os';
import { resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import type { Settings } from './settings-schema.ts';

/** The database that stores everything. */
export type DatabaseTarget =
  | {
      readonly kind: 'sqlite';
      /** Path of a file, or `:memory:`. */
      readonly path: string;
    }
  | {
      readonly kind: 'postgres';
      readonly url: string;
      /** Leads to PostgreSQL itself if `url` leads to a pooler. */
      readonly directUrl: string;
      readonly schema: string;
      /** Whether statements may be prepared by name. */
      readonly isPrepared: boolean;
      /** Name of this process among those that share the database. */
      readonly replica: string;
    };

type Variables = Readonly<Record<string, string | undefined>>;

/** Relative paths start at the folder. */
export function databaseTarget(settings: Settings, folder: string): DatabaseTarget {
  const { databaseUrl: url, databaseDirectUrl: directUrl = url } = settings;
  if (!isPostgres(url)) {
    const path = url.slice('sqlite:'.length);
    return { kind: 'sqlite', path: path === ':memory:' ? path : resolve(folder, path) };
  }
  return {
    kind: 'postgres',
    url,
    directUrl,
    schema: settings.databaseSchema,
    // A different direct address means that the first one leads to a pooler. In transaction mode, PgBouncer before 1.21
    // gives each transaction any connection, which may not know a statement that was prepared by name on another.
    isPrepared: directUrl === url,
    replica: settings.replicaName ?? `${hostname().replaceAll(/[^A-Za-z0-9_.:-]/g, '-')}-${process.pid}`,
  };
}

/** The database for people: the variables that name it and their addresses, without a password. */
export function maskedPlace({ databaseUrl, databaseDirectUrl }: Settings): { variable: string; place: string } {
  if (!isPostgres(databaseUrl)) return { variable: 'SLUICE_DATABASE_URL', place: databaseUrl };
  const places = [databaseUrl, databaseDirectUrl ?? databaseUrl].map((text) => {
    const { host, pathname } = new URL(text);
    return `${host}${pathname}`;
  });
  const isDirect = databaseDirectUrl !== undefined;
  return {
    variable: isDirect ? 'SLUICE_DATABASE_URL, SLUICE_DATABASE_DIRECT_URL' : 'SLUICE_DATABASE_URL',
    place: [...new Set(places)].join(' and '),
  };
}

export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

/** One line for each way in which the database settings contradict each other or protect nothing. */
export function databaseContradictions(settings: Settings, environment: Variables): string[] {
  const { databaseUrl, databaseDirectUrl } = settings;
  if (!isPostgres(databaseUrl)) {
    if (databaseDirectUrl === undefined) return [];
    return ['SLUICE_DATABASE_DIRECT_URL: bypasses a pooler of PostgreSQL, but SLUICE_DATABASE_URL is not postgres://'];
  }
  const lines = [
    ...transportMistakes('SLUICE_DATABASE_URL', databaseUrl, environment),
    ...(databaseDirectUrl === undefined
      ? []
      : transportMistakes('SLUICE_DATABASE_DIRECT_URL', databaseDirectUrl, environment)),
  ];
  if (settings.deliveryStore === 'memory') {
    lines.push(
      'SLUICE_DELIVERY_STORE: memory keeps the delivery log in one process; with postgres:// it must be database, which all replicas share',
    );
  }
  return lines;
}

/** Modes that protect a connection; `sslmode` as in PostgreSQL's manual, section 34.19. */
const ENCRYPTED = ['verify-full', 'verify-ca', 'require'];

/**
 * Yields one line if others on the network path could read the connection; `variable` names the setting of the URL. The
 * environment is that of the process, which the driver reads too.
 */
export function transportMistakes(variable: string, text: string, environment: Variables): string[] {
  const { hostname, searchParams } = new URL(text);
  // The driver takes the last of several values.
  const last = (name: string) => searchParams.getAll(name).at(-1);
  const mode = last('sslmode');
  // With `uselibpqcompat` weaker modes are as in PostgreSQL's own library, and prove nothing.
  const proven = last('uselibpqcompat') === 'true' ? ['verify-full'] : ENCRYPTED;
  if (mode !== undefined && mode !== 'disable' && !proven.includes(mode)) {
    return [
      `${variable}: sslmode=${/^[a-z-]{1,20}$/.test(mode) ? mode : '…'} does not verify the server; expected verify-full with sslrootcert=FILE, or disable on purpose`,
    ];
  }
  if (mode !== undefined || isThisMachine(last('host') || hostname || (environment.PGHOST ?? ''))) return [];
  return [
    `${variable}: leads to another machine without TLS, so anyone on the network path can read and change everything; add sslmode=verify-full and sslrootcert=FILE, or sslmode=disable on purpose`,
  ];
}

function isThisMachine(host: string): boolean {
  const address = host.replace(/^\[|\]$/g, '');
  // A path is a socket of this machine; without a host the driver uses localhost.
  if (address === '' || address.startsWith('/') || address.toLowerCase() === 'localhost') return true;
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}
