import { formatPath, type JsonPath } from '../expressions/json-path.ts';

/** What is wrong with a manifest, or doubtful. */
export interface ManifestIssue {
  readonly severity: 'error' | 'warning';
  readonly file: string;
  /** JSON path such as `triggers.github.inputs.webhookSlug`, as spelled in the file; empty for the file itself. */
  readonly path: string;
  /** Never holds a secret's value. */
  readonly message: string;
  /** A warning that weakens a gate: an error where manifests are read strictly. */
  readonly weakensGate?: boolean;
  /** A gate that the manifest asks for will not be there. */
  readonly skipsGate?: boolean;
}

/** An issue of a file that is known from elsewhere. */
export type Problem = Omit<ManifestIssue, 'file'>;

export function errorAt(path: JsonPath, message: string): Problem {
  return { severity: 'error', path: formatPath(path), message };
}

export function warningAt(path: JsonPath, message: string): Problem {
  return { severity: 'warning', path: formatPath(path), message };
}

export function gateWarningAt(path: JsonPath, message: string): Problem {
  return { severity: 'warning', path: formatPath(path), message, weakensGate: true };
}

export function formatIssue(issue: ManifestIssue): string {
  const place = issue.path === '' ? issue.file : `${issue.file} ${issue.path}`;
  return `${issue.severity} ${place}: ${issue.message}`;
}

/** Whether the path is one of the places or leads into one. */
export function isWithin(path: string, places: ReadonlySet<string>): boolean {
  // By the beginnings of the path: there may be as many places as there are steps, and each step asks.
  for (let end = 0; end < path.length; end += 1) {
    if ((path[end] === '.' || path[end] === '[') && places.has(path.slice(0, end))) return true;
  }
  return places.has(path);
}
