import { expect, it } from 'vitest';
import { fewOpenFiles, limitIn, openFileLimit } from '../../src/config/open-files.ts';

const limits = (soft: string) => `Limit                     Soft Limit           Hard Limit           Units
Max processes             63304                63304                processes
Max open files            ${soft.padEnd(20)} 1048576              files
`;

it.each([
  ['1024', 1024],
  ['1048576', 1_048_576],
  ['unlimited', null],
])('a soft limit of %s files is %j', (soft, limit) => {
  expect(limitIn(limits(soft))).toBe(limit);
});

it('few open files are told, with the number and what to do', () => {
  expect(fewOpenFiles(1024)).toMatch(/^ulimit -n is 1024: .*LimitNOFILE=/);
  for (const limit of [4096, 1_048_576, null]) expect(fewOpenFiles(limit)).toBeUndefined();
});

it('this process has a limit, or none that can be found out', () => {
  const limit = openFileLimit();
  expect(limit === null || limit > 0).toBe(true);
});
