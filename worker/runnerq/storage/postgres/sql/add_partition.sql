-- Make the partition of day $1, if it is not there.
SELECT {schema}.runnerq_add_partition($1)
