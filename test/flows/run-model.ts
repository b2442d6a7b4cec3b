import type { Graph, RunStatus } from '../../src/model/manifest.ts';

export type RowStatus = 'Open' | 'Succeeded' | 'Failed' | 'Skipped';

interface Row {
  status: RowStatus;
  output: unknown;
  attempts: number;
}

interface Loop {
  readonly total: number;
  readonly concurrency: number;
  started: number;
}

interface Counts {
  readonly total: number;
  readonly started: number;
  readonly ended: number;
  readonly failed: number;
}

/**
 * A simple model of a run, for comparison with the service: it keeps no counts, but computes everything from its rows
 * again. A step that is due, waiting or running is Open.
 */
export class RunModel {
  readonly rows = new Map<string, Row>();
  readonly loops = new Map<string, Loop>();
  readonly leased = new Set<string>();
  readonly waiting = new Set<string>();
  status: RunStatus = 'Running';
  isCancelled = false;
  readonly #graph: Graph;

  constructor(graph: Graph) {
    this.#graph = graph;
    this.#place('');
  }

  claimed(key: string): void {
    const row = this.#row(key);
    if (!this.waiting.delete(key)) row.attempts += 1;
    this.leased.add(key);
  }

  ended(key: string, status: 'Succeeded' | 'Failed', output: unknown): void {
    this.leased.delete(key);
    Object.assign(this.#row(key), { status, output: status === 'Succeeded' ? output : null });
    if (this.isCancelled) this.#close();
    else this.#follow(scopeOf(key));
  }

  waits(key: string): void {
    if (this.isCancelled) this.ended(key, 'Failed', null);
    else this.waiting.add(key);
    this.leased.delete(key);
  }

  looped(key: string, total: number, concurrency: number): void {
    this.leased.delete(key);
    if (this.isCancelled) this.ended(key, 'Failed', null);
    else {
      this.loops.set(key, { total, concurrency, started: 0 });
      this.#goOn(key);
    }
  }

  cancel(): void {
    this.isCancelled = true;
    this.#close();
  }

  /** Keys that are due again, or why none is. */
  retry(key: string): readonly string[] | 'notFailed' | 'stopped' | 'nothingToRetry' {
    if (this.rows.get(key)?.status !== 'Failed') return 'notFailed';
    if (this.isCancelled) return 'stopped';
    const causes = this.#causes(key);
    for (const cause of causes) this.#reopen(cause);
    if (causes.length === 0) return 'nothingToRetry';
    this.status = 'Running';
    return causes;
  }

  counts(loopKey: string): Counts {
    const { total, started } = this.#loop(loopKey);
    const ends = Array.from({ length: started }, (_, index) => this.#end(`${loopKey}.${index}.`));
    const ended = ends.filter((end) => end !== null).length;
    return { total, started, ended, failed: ends.filter((end) => end === 'Failed').length };
  }

  #causes(key: string): string[] {
    const loop = this.loops.get(key);
    if (loop === undefined || loop.total === 0) return [key];
    const failed = Array.from({ length: loop.started }, (_, index) => `${key}.${index}.`).filter(
      (scope) => this.#end(scope) === 'Failed',
    );
    return failed.flatMap((scope) => this.#unhandled(scope)).flatMap((cause) => this.#causes(cause));
  }

  #reopen(key: string): void {
    Object.assign(this.#row(key), { status: 'Open', output: null });
    this.#forgetAfter(key);
    const loopKey = loopOf(scopeOf(key));
    if (loopKey !== undefined && this.#row(loopKey).status !== 'Open') this.#reopen(loopKey);
  }

  #forgetAfter(key: string): void {
    const scope = scopeOf(key);
    const graph = this.#graphOf(scope);
    const after = new Set([key.slice(scope.length)]);
    for (const [each, { runAfter }] of Object.entries(graph)) {
      // Steps run after earlier ones, so one pass finds them all.
      if (!Object.keys(runAfter).some((upstream) => after.has(upstream))) continue;
      after.add(each);
      if (this.rows.get(scope + each)?.status === 'Skipped') this.rows.delete(scope + each);
    }
  }

  #follow(scope: string): void {
    this.#place(scope);
    const end = this.#end(scope);
    if (end === null) return;
    const loopKey = loopOf(scope);
    if (loopKey === undefined) this.status = end;
    else this.#goOn(loopKey);
  }

  /** Skips and starts steps until no more change. */
  #place(scope: string): void {
    for (const [key, { runAfter }] of Object.entries(this.#graphOf(scope))) {
      if (this.rows.has(scope + key)) continue;
      const edges = Object.entries(runAfter).map(([upstream, { statuses }]) => {
        const status = this.rows.get(scope + upstream)?.status ?? 'Open';
        return { isSatisfied: statuses.some((each) => each === status), isBroken: status !== 'Open' };
      });
      if (edges.every(({ isSatisfied }) => isSatisfied)) this.#add(scope + key, 'Open');
      else if (edges.some(({ isSatisfied, isBroken }) => isBroken && !isSatisfied)) this.#add(scope + key, 'Skipped');
    }
  }

  #goOn(loopKey: string): void {
    const loop = this.#loop(loopKey);
    for (;;) {
      const { started, ended, failed } = this.counts(loopKey);
      if (failed > 0 || started === loop.total || started - ended >= loop.concurrency) break;
      loop.started += 1;
      this.#place(`${loopKey}.${started}.`);
    }
    const { started, ended, failed } = this.counts(loopKey);
    if (ended < started) return;
    Object.assign(this.#row(loopKey), { status: failed > 0 ? 'Failed' : 'Succeeded', output: this.#left(loopKey) });
    this.#follow(scopeOf(loopKey));
  }

  #left(loopKey: string): unknown[] {
    const graph = this.#graphOf(`${loopKey}.0.`);
    const leaves = leavesOf(graph);
    return Array.from({ length: this.#loop(loopKey).total }, (_, index) => {
      const left = leaves.map((key) => [key, this.rows.get(`${loopKey}.${index}.${key}`)?.output ?? null]);
      return left.length === 1 ? left[0]?.[1] : Object.fromEntries(left);
    });
  }

  #close(): void {
    if (this.leased.size > 0 || this.status !== 'Running') return;
    for (const row of this.rows.values()) {
      if (row.status === 'Open') row.status = row.attempts === 0 ? 'Skipped' : 'Failed';
    }
    this.waiting.clear();
    this.status = 'Cancelled';
  }

  #end(scope: string): 'Succeeded' | 'Failed' | 'Skipped' | null {
    const graph = this.#graphOf(scope);
    const statuses = Object.keys(graph).map((key) => this.rows.get(scope + key)?.status ?? 'Open');
    if (statuses.includes('Open')) return null;
    if (this.#unhandled(scope).length > 0) return 'Failed';
    const isSkipped = leavesOf(graph).every((key) => this.rows.get(scope + key)?.status === 'Skipped');
    return isSkipped ? 'Skipped' : 'Succeeded';
  }

  #unhandled(scope: string): string[] {
    const graph = this.#graphOf(scope);
    return Object.keys(graph)
      .filter((key) => this.rows.get(scope + key)?.status === 'Failed')
      .filter((key) => {
        const isHandler = ([next, { runAfter }]: [string, Graph[string]]) =>
          this.rows.get(scope + next)?.status === 'Succeeded' && runAfter[key]?.statuses.includes('Failed');
        return !Object.entries(graph).some(isHandler);
      })
      .map((key) => scope + key);
  }

  #add(key: string, status: RowStatus): void {
    this.rows.set(key, { status, output: null, attempts: 0 });
  }

  #row(key: string): Row {
    const row = this.rows.get(key);
    if (row === undefined) throw new Error(`the model has no step ${key}`);
    return row;
  }

  #loop(key: string): Loop {
    const loop = this.loops.get(key);
    if (loop === undefined) throw new Error(`the model has no loop ${key}`);
    return loop;
  }

  #graphOf(scope: string): Graph {
    const names = scope.split('.').filter((_, index) => index % 2 === 0);
    return names.slice(0, -1).reduce((graph: Graph, name) => graph[name]?.steps ?? {}, this.#graph);
  }
}

function leavesOf(graph: Graph): string[] {
  const isUpstream = (key: string) => Object.values(graph).some(({ runAfter }) => Object.hasOwn(runAfter, key));
  return Object.keys(graph).filter((key) => !isUpstream(key));
}

function scopeOf(key: string): string {
  return key.slice(0, key.lastIndexOf('.') + 1);
}

/** Runtime key of the loop that a scope belongs to. */
function loopOf(scope: string): string | undefined {
  return scope === '' ? undefined : scope.split('.').slice(0, -2).join('.');
}
