import './installed.ts';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
}

/** The module of kubernetes-models for a kind; the Prometheus operator's are in a separate package. */
function moduleOf({ apiVersion }: KubeObject): string {
  const operator = apiVersion.startsWith('monitoring.coreos.com/') ? '@kubernetes-models/prometheus-operator' : '';
  return `${operator || 'kubernetes-models'}/${apiVersion}`;
}

/** Errors that the Kubernetes schemas find in the objects' values. */
export async function wrongValues(objects: readonly KubeObject[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const object of objects) {
    const kinds = (await import(moduleOf(object))) as Record<string, new (given: object) => { validate(): void }>;
    const Kind = kinds[object.kind];
    try {
      if (Kind === undefined) throw new Error('there is no such kind');
      new Kind(object).validate();
    } catch (error) {
      wrong.push(`${object.kind} ${object.metadata.name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return wrong;
}

/** Fields that Kubernetes does not have. The schemas allow them, but the compiler does not in an object literal. */
export function unknownFields(objects: readonly KubeObject[]): string[] {
  const folder = mkdtempSync(join(import.meta.dirname, 'node_modules/.kube-'));
  try {
    const lines = objects.map(
      (object, at) => `export const o${at}: import('${moduleOf(object)}').I${object.kind} = ${JSON.stringify(object)};`,
    );
    writeFileSync(join(folder, 'objects.ts'), lines.join('\n'));
    const compilerOptions = { noEmit: true, strict: true, skipLibCheck: true, module: 'NodeNext', types: [] };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['objects.ts'] }));
    const compiler = resolve(import.meta.dirname, '../../node_modules/typescript/bin/tsc');
    const { stdout } = spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' });
    return stdout.split('\n').filter((line) => /error TS/.test(line));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
