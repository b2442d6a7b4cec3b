import { describe, expect, it } from 'vitest';
import { activityList } from '../../../src/features/activity/page/list.ts';

describe('the filters of the activity', () => {
  it('become the question to the API', () => {
    const query = 'actor=ci&action=deployFlow&target=f&since=2026-01-01T00:00:00.000Z&until=5&else=x';
    const { path, isNarrowed } = activityList;
    expect(path(new URLSearchParams(query))).toBe(
      '/activity?actor=ci&action=deployFlow&target=f&since=2026-01-01T00%3A00%3A00.000Z&until=5&skip=0&take=50&includeTotal=true',
    );
    for (const [name] of new URLSearchParams(query)) {
      expect([name, isNarrowed(new URLSearchParams({ [name]: 'x' }))]).toEqual([name, name !== 'else']);
    }
  });
});
