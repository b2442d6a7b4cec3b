import { expect, it } from 'vitest';
import { ORDERS_ID, useDashboard } from '../dashboard/fixture.ts';

const dashboard = useDashboard();

interface Parameter {
  readonly name: string;
  readonly in: 'query' | 'path';
  readonly required?: boolean;
  readonly example?: unknown;
  readonly schema: { readonly maximum?: number; readonly maxLength?: number; readonly format?: string };
}

/** A value for a required parameter. */
const filled = ({ example, schema }: Parameter): string =>
  String(example ?? (schema.format === 'uuid' ? ORDERS_ID : schema.maximum === undefined ? 'orders' : 1));

/** The largest number or the longest text that the document allows, and one more. */
function valuesAt({ schema: { maximum, maxLength } }: Parameter): readonly [most: string, beyond: string] {
  if (maximum !== undefined) return [String(maximum), String(maximum + 1)];
  return ['x'.repeat(maxLength ?? 0), 'x'.repeat((maxLength ?? 0) + 1)];
}

it('each parameter of the API that has a limit is taken at it, and refused by name beyond', async () => {
  const { paths } = (await dashboard.app.inject('/flows/api/openapi.json')).json();
  const asked: string[] = [];
  for (const [path, { get }] of Object.entries<{ get?: { parameters?: Parameter[] } }>(paths)) {
    for (const parameter of get?.parameters ?? []) {
      const { name, schema } = parameter;
      if (parameter.in !== 'query' || (schema.maximum ?? schema.maxLength) === undefined) continue;
      const urlWith = (value: string) => {
        const query = new URLSearchParams({ [name]: value });
        let url = path;
        for (const other of get?.parameters ?? []) {
          if (other.in === 'path') url = url.replace(`{${other.name}}`, filled(other));
          else if (other.required === true && other.name !== name) query.set(other.name, filled(other));
        }
        return `${url}?${query}`;
      };
      const [most, beyond] = valuesAt(parameter);
      const [taken, refused] = [await dashboard.app.inject(urlWith(most)), await dashboard.app.inject(urlWith(beyond))];
      asked.push(`${path} ${name}`);
      const isRefused = (body: string) => body.includes(`${name}: `) && body.includes('at most');
      expect({ path, name, isRefused: taken.statusCode === 400 && isRefused(taken.body) }).toEqual({
        path,
        name,
        isRefused: false,
      });
      expect({ path, name, status: refused.statusCode }).toEqual({ path, name, status: 400 });
    }
  }
  expect(asked).toContain('/flows/api/runs take');
});
