import { type KeyObject, X509Certificate } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import type { Delivery } from '../../model/delivery.ts';
import { codeOf } from '../../model/error-kind.ts';
import { readPublicKey } from './scheme-keys.ts';
import type { CertificateSource, SignatureSpec } from './spec.ts';
import { bodyReader, headerOf, textOf } from './values.ts';

/** The public keys of publishers that sign with certificates. */
export interface Certificates {
  /**
   * Rejects with `CertificateUnavailableError` if the certificate cannot be fetched, and with another error if it
   * cannot be trusted. The URL must have passed `certificateUrlOf`.
   */
  keyFor(source: PublishersCertificate, url: string, clientIp: string): Promise<KeyObject>;
  /** Notes that a delivery from the address was verified, so that it no longer competes with strangers. */
  remember(clientIp: string): void;
}

/** The certificates of a publisher that a trigger accepts. */
interface PublishersCertificate {
  readonly spec: SignatureSpec;
  /** Whether certificates for tests count too. */
  readonly isSandbox: boolean;
}

interface CertificatesOptions {
  /** Yields the body of a 200 from an https URL, within bounds of size and time; follows no redirect. */
  readonly fetch: (url: string) => Promise<string>;
  readonly clock: Clock;
}

interface Known {
  readonly key: KeyObject;
  readonly validFrom: number;
  readonly validTo: number;
}

// A publisher has one certificate, and two during a renewal; AWS has some for each region.
const MAX_CERTIFICATES = 100;
// Anyone who forges deliveries can name any URL of the right form. URLs that fail are cached separately, so that they
// do not evict needed certificates, and only a few are fetched at the same time.
const MAX_FAILURES = 1000;
const FAILURE_MS = 60_000;
const MAX_FETCHES = 4;
// Strangers may use all of these. So an address with an earlier verified delivery has one fetch to itself.
const MAX_KNOWN_ADDRESSES = 1000;
/** Limit for a file with a certificate and those that vouch for it. */
const MAX_LENGTH = 65_536;

/** The certificate could not be fetched, so the delivery could not be judged. */
export class CertificateUnavailableError extends Error {
  readonly code: string;
  constructor(code: string, options?: ErrorOptions) {
    super(code, options);
    this.name = 'CertificateUnavailableError';
    this.code = code;
  }
}

/** A fault of the certificate; its code may appear in the detail of a delivery. */
class CertificateError extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.name = 'CertificateError';
    this.code = code;
  }
}

/** Fetches each certificate once for all deliveries that wait for it, and keeps its key until it expires. */
export function createCertificates({ fetch, clock }: CertificatesOptions): Certificates {
  // With `max`, a start would allocate room for all entries.
  const each = { sizeCalculation: () => 1 };
  const known = new LRUCache<string, Known>({ maxSize: MAX_CERTIFICATES, ...each });
  const failures = new LRUCache<string, { readonly until: number; readonly error: unknown }>({
    maxSize: MAX_FAILURES,
    ...each,
  });
  const underWay = new Map<string, Promise<Known>>();
  const knownAddresses = new LRUCache<string, true>({ maxSize: MAX_KNOWN_ADDRESSES, ...each });
  /** Addresses that are using their separate fetch. */
  const ownFetches = new Set<string>();
  let sharedFetches = 0;

  async function load(source: PublishersCertificate, url: string): Promise<Known> {
    try {
      const pem = await fetch(url).catch((cause: unknown) => {
        throw new CertificateUnavailableError(codeOf(cause), { cause });
      });
      const certificate = readCertificate(source, pem);
      refuseIfNotValid(certificate, clock.now());
      known.set(entryOf(source, url), certificate);
      return certificate;
    } catch (error) {
      failures.set(entryOf(source, url), { until: clock.monotonic() + FAILURE_MS, error });
      throw error;
    }
  }

  /** Yields a function that gives the slot back. */
  function takeSlot(clientIp: string): () => void {
    if (sharedFetches < MAX_FETCHES) {
      sharedFetches += 1;
      return () => {
        sharedFetches -= 1;
      };
    }
    if (!knownAddresses.has(clientIp) || ownFetches.has(clientIp))
      throw new CertificateUnavailableError('TOO_MANY_FETCHES');
    ownFetches.add(clientIp);
    return () => void ownFetches.delete(clientIp);
  }

  return {
    async keyFor(source, url, clientIp) {
      const entry = entryOf(source, url);
      const kept = known.get(entry);
      if (kept !== undefined && isValid(kept, clock.now())) return kept.key;
      const failure = failures.get(entry);
      if (failure !== undefined && clock.monotonic() < failure.until) throw failure.error;
      const waited = underWay.get(entry);
      if (waited !== undefined) return (await waited).key;
      const release = takeSlot(clientIp);
      const loading = load(source, url).finally(() => {
        underWay.delete(entry);
        release();
      });
      underWay.set(entry, loading);
      return (await loading).key;
    },
    remember: (clientIp) => void knownAddresses.set(clientIp, true),
  };
}

/** Cached separately with and without certificates for tests, because that decides whether one is trusted. */
function entryOf({ spec, isSandbox }: PublishersCertificate, url: string): string {
  return JSON.stringify([spec.name, isSandbox, url]);
}

/** The URL of the certificate that the delivery names, if it is one of the publisher's; undefined for any other. */
export function certificateUrlOf(source: PublishersCertificate, { headers, body }: Delivery): string | undefined {
  const { certificate } = source.spec;
  if (certificate === undefined) return undefined;
  const { url, path } = certificate;
  const text = 'header' in url ? headerOf(headers, url.header) : textOf(bodyReader(headers, body)(url.field));
  return text !== undefined && formsOf(source).some(({ host }) => isOfPublisher({ host, path }, text))
    ? text
    : undefined;
}

function formsOf({ spec: { certificate }, isSandbox }: PublishersCertificate) {
  if (certificate === undefined) return [];
  return isSandbox && certificate.sandbox !== undefined ? [certificate, certificate.sandbox] : [certificate];
}

/** Whether the URL is exactly one of the publisher's: a lenient parser could read another spelling as another host. */
function isOfPublisher({ host, path }: Pick<CertificateSource, 'host' | 'path'>, text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  const isWhole = (pattern: RegExp, part: string) => pattern.exec(part)?.[0] === part;
  return text === `https://${url.host}${url.pathname}` && isWhole(host, url.host) && isWhole(path, url.pathname);
}

/** The first certificate in the file is the signer's. The others vouch for it, which the host does already. */
function readCertificate(source: PublishersCertificate, pem: string): Known {
  const [first] =
    pem.length > MAX_LENGTH ? [] : (/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(pem) ?? []);
  if (first === undefined) throw new CertificateError('NOT_A_CERTIFICATE');
  const x509 = new X509Certificate(first);
  const [, commonName = ''] = /^CN=(.*)$/m.exec(x509.subject) ?? [];
  if (!formsOf(source).some(({ commonName: form }) => form?.test(commonName) !== false))
    throw new CertificateError('WRONG_SUBJECT');
  const pemOfKey = x509.publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const { key } = readPublicKey('rsa', pemOfKey, { field: 'certificate', scheme: source.spec.name });
  return { key, validFrom: Date.parse(x509.validFrom), validTo: Date.parse(x509.validTo) };
}

function isValid({ validFrom, validTo }: Known, now: number): boolean {
  return validFrom <= now && now < validTo;
}

function refuseIfNotValid(certificate: Known, now: number): void {
  if (!isValid(certificate, now)) throw new CertificateError('CERTIFICATE_NOT_VALID');
}
